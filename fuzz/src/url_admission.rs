//! Any text as a destination's URL: what is admitted is canonical, so that it admits to itself,
//! and has nothing that a parser would drop.

use duehook::sender::egress::{Rules, admit};

pub fn target(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let listed =
        Rules { allow_http: true, ports: vec![443, 80], allow_cidrs: vec!["10.0.0.0/8".parse().unwrap()] };
    let strict = Rules { allow_http: false, ports: vec![443], allow_cidrs: vec![] };
    for rules in [listed, strict] {
        let Ok(url) = admit(&rules, text, &[]) else { continue };
        assert_eq!(admit(&rules, url.as_str(), &[]).as_ref(), Ok(&url), "{text:?}");
        assert!(url.username().is_empty() && url.password().is_none() && url.fragment().is_none());
        assert!(url.as_str().bytes().all(|byte| byte.is_ascii_graphic()), "{url}");
    }
}

#[test]
fn corpus() {
    crate::over_corpus("url_admission", target);
}
