//! Whose a file of secrets is to be: its owner's alone. Knows modes, and looks at no file.

use std::path::{Path, PathBuf};

/// What others must not have of a file that its owner alone may read.
const OTHERS: u32 = 0o077;
/// The same where root owns it and a group is let in to read: how keys are given to services.
const OTHERS_THAN_GROUP: u32 = 0o037;

/// A file of secrets that others can read or change. Says what mends it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is open to others (its mode is {mode:04o}): chmod {wanted:o} {path}")]
pub struct OpenToOthers {
    path: PathBuf,
    mode: u32,
    wanted: u32,
}

/// Looks at the mode of a file that is its owner's alone.
///
/// # Errors
/// [`OpenToOthers`] when others can read or change it.
pub fn own(path: &Path, mode: u32) -> Result<(), OpenToOthers> {
    judge(path, mode, OTHERS)
}

/// Looks at the mode of a key that root may own (`of_root`) and share with a group.
///
/// # Errors
/// [`OpenToOthers`] when anybody else can read or change it.
pub fn key(path: &Path, mode: u32, of_root: bool) -> Result<(), OpenToOthers> {
    judge(path, mode, if of_root { OTHERS_THAN_GROUP } else { OTHERS })
}

fn judge(path: &Path, mode: u32, others: u32) -> Result<(), OpenToOthers> {
    let mode = mode & 0o7777;
    let wanted = if others == OTHERS { 0o600 } else { 0o640 };
    if mode & others == 0 { Ok(()) } else { Err(OpenToOthers { path: path.to_owned(), mode, wanted }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t68_who_may_read_a_file_of_secrets() {
        let path = Path::new("/etc/duehook/key.pem");
        let check = |mode: u32, alone: bool, shared: bool| {
            let of_root = key(path, mode, true).is_ok();
            let got = (own(path, mode).is_ok(), key(path, mode, false).is_ok(), of_root);
            assert_eq!(got, (alone, alone, shared), "{mode:o}");
        };
        for mode in [0o600, 0o400, 0o700, 0o100_600] {
            check(mode, true, true);
        }
        for mode in [0o640, 0o440, 0o100_640] {
            check(mode, false, true);
        }
        for mode in [0o644, 0o604, 0o660, 0o620, 0o602, 0o610, 0o601, 0o777] {
            check(mode, false, false);
        }
        let says = |it: Result<(), OpenToOthers>| it.unwrap_err().to_string();
        let mends = "is open to others (its mode is 0644): chmod 600 /etc/duehook/key.pem";
        assert_eq!(says(own(path, 0o100_644)), mends);
        assert!(says(key(path, 0o644, true)).ends_with("chmod 640 /etc/duehook/key.pem"));
    }
}
