//! A body as it comes, cut into numbered lines. Knows nothing of what stands in them.

use std::fmt;
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};

use crate::http::body;
use crate::http::error::{Code, Problem};
use crate::model::MAX_PAYLOAD_LIMIT;

/// No line is longer: the largest body in base64, and half a megabyte for headers, labels or three
/// certificates, escaped.
pub const MAX_LINE: usize = MAX_PAYLOAD_LIMIT / 3 * 4 + 512 * 1024;
/// Nobody is waited for longer than this between two pieces.
const STALLED: Duration = Duration::from_secs(60);

/// What comes next.
#[derive(Clone, PartialEq, Eq)]
pub enum Piece {
    Line(u64, Bytes),
    /// It was longer than [`MAX_LINE`], and is not kept.
    TooLong(u64),
}

impl fmt::Debug for Piece {
    /// Which line it is, and nothing of it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Piece::Line(number, _) => write!(f, "Line({number})"),
            Piece::TooLong(number) => write!(f, "TooLong({number})"),
        }
    }
}

/// Cuts what is pushed into lines; empty ones count and are passed over.
#[derive(Default)]
pub struct Cutter {
    buffer: BytesMut,
    /// No line ends in so many bytes of the buffer.
    searched: usize,
    /// Lines that have ended.
    number: u64,
    /// What comes is the rest of a line that is too long.
    skipping: bool,
}

impl Cutter {
    /// More has come.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next line that is whole.
    pub fn cut(&mut self) -> Option<Piece> {
        while let Some(at) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') {
            let line = self.buffer.split_to(self.searched + at + 1);
            self.searched = 0;
            if let Some(piece) = self.piece(line) {
                return Some(piece);
            }
        }
        self.searched = self.buffer.len();
        if self.skipping || self.searched > MAX_LINE {
            self.skipping = true;
            self.buffer.clear();
            self.searched = 0;
        }
        None
    }

    /// What is left when nothing more comes: a last line may lack its end.
    pub fn rest(&mut self) -> Option<Piece> {
        let rest = self.buffer.split();
        self.searched = 0;
        if rest.is_empty() && !self.skipping { None } else { self.piece(rest) }
    }

    fn piece(&mut self, line: BytesMut) -> Option<Piece> {
        self.number += 1;
        let too_long = std::mem::take(&mut self.skipping) || line.len() > MAX_LINE + 1;
        if too_long {
            return Some(Piece::TooLong(self.number));
        }
        let line = line.freeze();
        let inside = line.trim_ascii();
        (!inside.is_empty()).then(|| Piece::Line(self.number, line.slice_ref(inside)))
    }
}

/// The lines of a request's body.
pub struct Lines {
    body: Body,
    cutter: Cutter,
    ended: bool,
}

impl Lines {
    /// Nothing is read yet.
    #[must_use]
    pub fn new(body: Body) -> Lines {
        Lines { body, cutter: Cutter::default(), ended: false }
    }

    /// The next line; None at the end of the body.
    ///
    /// # Errors
    /// 408 when nothing comes for a minute, 400 when the body breaks off. Both end the connection.
    pub async fn next(&mut self) -> Result<Option<Piece>, Problem> {
        loop {
            if let Some(piece) = self.cutter.cut() {
                return Ok(Some(piece));
            }
            if self.ended {
                return Ok(self.cutter.rest());
            }
            match tokio::time::timeout(STALLED, body::next(&mut self.body)).await {
                Ok(piece) => match piece? {
                    Some(bytes) => self.cutter.push(&bytes),
                    None => self.ended = true,
                },
                Err(_) => return Err(stalled()),
            }
        }
    }
}

fn stalled() -> Problem {
    let detail = format!("nothing came for {} s; what was read is kept", STALLED.as_secs());
    Problem::new(Code::BodyTimeout, detail).closing()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pieces of a body and the lines they make, however it was cut.
    #[test]
    fn lines_are_numbered_and_come_whole() {
        let check = |pieces: &[&str], want: &[(u64, &str)]| {
            let mut cutter = Cutter::default();
            let mut got = Vec::new();
            for piece in pieces {
                cutter.push(piece.as_bytes());
                got.extend(std::iter::from_fn(|| cutter.cut()));
            }
            got.extend(cutter.rest());
            let want: Vec<Piece> = want
                .iter()
                .map(|(n, text)| Piece::Line(*n, Bytes::copy_from_slice(text.as_bytes())))
                .collect();
            assert_eq!(got, want, "{pieces:?}");
        };
        check(&[], &[]);
        check(&[""], &[]);
        check(&["a"], &[(1, "a")]);
        check(&["a\n"], &[(1, "a")]);
        check(&["a\nb"], &[(1, "a"), (2, "b")]);
        check(&["a\r\n\r\n\n b \n"], &[(1, "a"), (4, "b")]);
        check(&["a", "b", "\n", "c\nd", "e"], &[(1, "ab"), (2, "c"), (3, "de")]);
        check(&["\n", "\n", "x"], &[(3, "x")]);
    }

    #[test]
    fn a_line_that_is_too_long_is_named_and_not_kept() {
        let mut cutter = Cutter::default();
        cutter.push(b"a\n");
        assert_eq!(cutter.cut(), Some(Piece::Line(1, Bytes::from_static(b"a"))));
        for _ in 0..3 {
            cutter.push(&vec![b'x'; MAX_LINE + 1]);
            assert_eq!(cutter.cut(), None);
            assert!(cutter.buffer.is_empty(), "nothing of it is held");
        }
        cutter.push(b"x\nb\n");
        assert_eq!(cutter.cut(), Some(Piece::TooLong(2)));
        assert_eq!(cutter.cut(), Some(Piece::Line(3, Bytes::from_static(b"b"))));
        cutter.push(&vec![b'x'; MAX_LINE]);
        cutter.push(b"\n");
        assert!(matches!(cutter.cut(), Some(Piece::Line(4, line)) if line.len() == MAX_LINE));
        cutter.push(&vec![b'x'; MAX_LINE + 1]);
        assert_eq!((cutter.cut(), cutter.rest()), (None, Some(Piece::TooLong(5))));
        assert_eq!(cutter.rest(), None);
    }
}
