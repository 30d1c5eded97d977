//! What of an answer's head is kept. The rest needs sockets: `tests/it/sender.rs`.

use super::*;

#[test]
fn the_lines_that_a_wait_is_read_from() {
    let check = |lines: &[(&'static str, &[u8])], retry_after: &[&[u8]], date: Option<&[u8]>| {
        let mut map = HeaderMap::new();
        for (name, value) in lines {
            map.append(*name, header::HeaderValue::from_bytes(value).unwrap());
        }
        let retry_after = retry_after.iter().map(|line| line.to_vec()).collect();
        let want = RetryHeaders { retry_after, date: date.map(<[u8]>::to_vec) };
        assert_eq!(retry_headers(&map), want, "{lines:?}");
    };
    check(&[], &[], None);
    check(&[("date", b"now")], &[], None);
    check(&[("retry-after", b"5"), ("date", b"now")], &[b"5"], Some(b"now"));
    check(&[("retry-after", b"5"), ("date", b"now"), ("age", b"9")], &[b"5"], None);
    check(&[("retry-after", b"5"), ("retry-after", b"\xff")], &[b"5", b"\xff"], None);
    check(&[("retry-after", &[b'1'; 500])], &[&[b'1'; MAX_VALUE + 1]], None);
    check(&[("retry-after", &b"1"[..]); 20], &[&b"1"[..]; MAX_VALUES], None);
}

#[test]
fn a_ca_file_without_certificates_is_refused() {
    for pem in [&b""[..], b"-----BEGIN CERTIFICATE-----\nAAAA", b"hello"] {
        let config = Config { ca_pem: Some(pem.to_vec()), ..Config::default() };
        assert!(Sender::new(config).is_err(), "{pem:?}");
    }
}

#[test]
fn an_error_names_the_host_and_nothing_else_of_the_url() {
    let url: Url = "https://hooks.example.org:8443/t0ken?secret=s3cret".parse().unwrap();
    let seen = failed(&url, Failure { text: "x".repeat(500), ..failure::deadline(true) });
    let text = seen.error.unwrap();
    assert!(text.starts_with("hooks.example.org: xxx"), "{text}");
    assert_eq!(text.len(), MAX_ERROR);
}
