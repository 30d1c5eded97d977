//! `duehook receiver`: the receiver by path for people and programs, until ctrl-c.
//!
//! It says where it listens and tells one line a request, for programs one JSON object a line.

use std::io::{self, Write as _};
use std::net::SocketAddr;

use serde_json::json;
use tokio::net::TcpListener;

use super::{Answer, Observe, Received, Receiver, Record, Script, answer, paths};

/// What is asked for.
#[derive(Clone, Debug)]
pub struct ReceiverOptions {
    pub listen: SocketAddr,
    /// True: no line for each request.
    pub quiet: bool,
    /// True: each line is a JSON object.
    pub json: bool,
}

/// Runs it until ctrl-c. Prints its address, and one line a request: time, method, path, key, attempt,
/// whether it is signed, answer.
///
/// # Errors
/// The address cannot be listened on.
pub async fn serve(options: ReceiverOptions) -> io::Result<()> {
    let ReceiverOptions { listen, quiet, json } = options;
    let listener = TcpListener::bind(listen).await?;
    let tell = move |received: &Received, answer: &Answer| print(&line(json, received, answer));
    let observe: Option<Box<Observe>> = if quiet { None } else { Some(Box::new(tell)) };
    let receiver = Receiver::on(listener, Script::Paths, Record::Count, observe)?;
    let url = format!("http://{}", receiver.address());
    match json {
        true => print(&json!({"event": "listening", "url": url}).to_string()),
        false => print(&format!("listening on {url}\n{}", paths::USAGE)),
    }
    tokio::signal::ctrl_c().await?;
    let requests = receiver.count();
    match json {
        true => print(&json!({"event": "stopped", "requests": requests}).to_string()),
        false => print(&format!("{requests} requests")),
    }
    receiver.stop().await;
    Ok(())
}

fn line(json: bool, received: &Received, answer: &Answer) -> String {
    let at = crate::time::Timestamp::from(answer::wall_clock());
    let Received { method, path, length, .. } = received;
    let signed = received.header("webhook-signature").is_some();
    if json {
        return json!({
            "event": "request", "at": at.to_string(), "method": method, "path": path,
            "key": received.key(), "attempt": received.attempt(), "signed": signed,
            "bytes": length, "answer": answer.to_string(),
        })
        .to_string();
    }
    let key = received.key().unwrap_or("-");
    let attempt = received.attempt().map_or_else(|| "-".to_owned(), |n| n.to_string());
    let signed = if signed { "  signed" } else { "" };
    format!("{at}  {method} {path}  key={key}  attempt={attempt}{signed}  {length} bytes  -> {answer}")
}

/// A reader that has gone (a closed pipe) must not end the receiver.
fn print(line: &str) {
    let _gone = writeln!(io::stdout(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use hyper::header::HeaderMap;

    #[test]
    fn a_line_says_whether_it_is_signed() {
        let request = |signature: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert("idempotency-key", "k".parse().unwrap());
            headers.insert("duehook-attempt", "2".parse().unwrap());
            signature.map(|text| headers.insert("webhook-signature", text.parse().unwrap()));
            let (at, body) = (std::time::Duration::ZERO, Bytes::new());
            let (method, path) = ("POST".to_owned(), "/ok".to_owned());
            Received { n: 1, at, method, path, headers, body, length: 17, sha256: [0; 32] }
        };
        let ok = Answer::status(204);
        let check = |signature, want: &str| {
            let text = line(false, &request(signature), &ok);
            assert!(text.ends_with(want), "{text}");
        };
        check(None, "Z  POST /ok  key=k  attempt=2  17 bytes  -> 204");
        check(Some("v1,x"), "Z  POST /ok  key=k  attempt=2  signed  17 bytes  -> 204");
        let told: serde_json::Value = serde_json::from_str(&line(true, &request(Some("v1,x")), &ok)).unwrap();
        assert_eq!((&told["event"], &told["signed"]), (&"request".into(), &true.into()), "{told}");
        assert_eq!((&told["attempt"], &told["answer"]), (&2.into(), &"204".into()), "{told}");
    }

    #[test]
    fn every_line_of_the_usage_is_indented() {
        assert!(paths::USAGE.lines().all(|line| line.starts_with("  /")), "{}", paths::USAGE);
    }
}
