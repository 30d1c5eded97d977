//! The egress rules against every URL vector, and the exemptions of `allow_cidrs`.

use super::*;

#[derive(serde::Deserialize)]
struct Vector {
    id: String,
    url: String,
    admit: bool,
}

fn strict() -> Rules {
    Rules { allow_http: false, ports: vec![443, 8443], allow_cidrs: Vec::new() }
}

fn nets(texts: &[&str]) -> Vec<IpNet> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn t49_every_vector_under_the_strict_default() {
    let vectors: Vec<Vector> = serde_json::from_str(include_str!("urls.json")).unwrap();
    assert_eq!(vectors.len(), 71);
    for Vector { id, url, admit: want } in vectors {
        let got = admit(&strict(), &url, &[]);
        assert_eq!(got.is_ok(), want, "{id} {url:?}: {got:?}");
        if let Ok(url) = got {
            assert_eq!(admit(&strict(), url.as_str(), &[]).as_ref(), Ok(&url), "{id}: canonical");
        }
    }
}

#[test]
fn the_reason_is_named() {
    let check = |url: &str, want: Refusal| assert_eq!(admit(&strict(), url, &[]), Err(want), "{url:?}");
    check(&format!("https://a.org/{}", "x".repeat(MAX_URL)), Refusal::Length);
    check("https://a.org/\r\nx: y", Refusal::Characters);
    check("https://a.org/a b", Refusal::Characters);
    check("https://a.org/a\\b", Refusal::Characters);
    check("", Refusal::Malformed);
    check("https://", Refusal::Malformed);
    check("hooks.example.org", Refusal::Malformed);
    check("http://a.org/", Refusal::Scheme);
    check("file:///etc/passwd", Refusal::Scheme);
    check("https://u@a.org/", Refusal::UserInfo);
    check("https://:p@a.org/", Refusal::UserInfo);
    check("https://a.org/#x", Refusal::Fragment);
    check("https://a.org:22/", Refusal::Port);
    check("https://intranet/", Refusal::Name);
    check("https://metadata.google.internal/", Refusal::Name);
    check("https://.org/", Refusal::Name);
    check("https://10.0.0.1/", Refusal::Unlisted(Kind::Private));
    check("https://169.254.169.254/", Refusal::Forbidden(Kind::LinkLocal));
    for port in [22, 25, 6379] {
        check(&format!("https://a.org:{port}/"), Refusal::Port);
    }
}

#[test]
fn the_canonical_form_is_kept() {
    let check = |url: &str, want: &str| {
        assert_eq!(admit(&strict(), url, &[]).unwrap().as_str(), want);
    };
    check("HTTPS://EXAMPLE.com", "https://example.com/");
    check("https://hooks.customer.org.:443/x?y=1", "https://hooks.customer.org/x?y=1");
    check("https://exa%6dple.com:0443/", "https://example.com/");
    check("https://a.org/x/../y", "https://a.org/y");
}

#[test]
fn listed_addresses_are_exempt_from_scheme_and_port() {
    let check = |url: &str, cidrs: &[&str], want: Result<Reach, Refusal>| {
        let own = admit(&strict(), url, &nets(cidrs)).and_then(|url| permit(&strict(), &url, &nets(cidrs)));
        assert_eq!(own, want, "{url} with {cidrs:?} at the destination");
        let rules = Rules { allow_cidrs: nets(cidrs), ..strict() };
        let server = admit(&rules, url, &[]).and_then(|url| permit(&rules, &url, &[]));
        assert_eq!(server, want, "{url} with {cidrs:?} at the server");
    };
    let home = ["127.0.0.1/32"];
    check("http://127.0.0.1:9000/ok", &home, Ok(Reach::Listed));
    check("http://[::ffff:127.0.0.1]:9000/ok", &home, Ok(Reach::Listed));
    check("http://127.0.0.2:9000/ok", &home, Err(Refusal::Unlisted(Kind::Loopback)));
    check("http://10.1.2.3:8080/", &["10.0.0.0/8"], Ok(Reach::Listed));
    check("http://1.1.1.1:25/", &["1.1.1.1/32"], Ok(Reach::Listed));
    check("http://1.1.1.1/", &home, Err(Refusal::Scheme));
    check("https://1.1.1.1:22/", &home, Err(Refusal::Port));
    check("https://1.1.1.1/", &home, Ok(Reach::Public));
    for url in
        ["http://localhost:9000/", "http://hooks.example.org/", "https://a.org:22/", "https://intranet/"]
    {
        check(url, &home, Ok(Reach::Listed));
        check(url, &[], admit(&strict(), url, &[]).map(|_| Reach::Public));
    }
    check("https://hooks.customer.org/", &home, Ok(Reach::Public));
}

#[test]
fn link_local_and_metadata_are_never_listed() {
    let all = nets(&["0.0.0.0/0", "::/0"]);
    let metadata = ["168.63.129.16", "100.100.100.200", "192.0.0.192", "[fd00:ec2::23]", "[fd00:42::42]"];
    let link_local = ["169.254.169.254", "[fe80::1]", "[::ffff:169.254.1.1]", "[64:ff9b::a9fe:a9fe]"];
    for (hosts, kind) in [(&metadata[..], Kind::Metadata), (&link_local[..], Kind::LinkLocal)] {
        for host in hosts {
            let got = admit(&strict(), &format!("https://{host}/"), &all);
            assert_eq!(got, Err(Refusal::Forbidden(kind)), "{host}");
        }
    }
    assert!(admit(&strict(), "http://0.0.0.0:9000/", &all).is_err());
}

#[test]
fn allow_http_opens_http_and_nothing_else() {
    let rules = Rules { allow_http: true, ..strict() };
    let check = |url: &str, want: Result<(), Refusal>| {
        assert_eq!(admit(&rules, url, &[]).map(|_| ()), want, "{url}");
    };
    check("http://a.org:8443/", Ok(()));
    check("http://a.org/", Err(Refusal::Port));
    check("https://a.org:80/", Err(Refusal::Port));
    check("http://a.org:8080/", Err(Refusal::Port));
    check("ftp://a.org/", Err(Refusal::Scheme));
    check("http://127.0.0.1/", Err(Refusal::Unlisted(Kind::Loopback)));
}

#[test]
fn an_address_is_judged_by_what_may_be_reached() {
    let check = |reach: Reach, address: &str, cidrs: &[&str], want: bool| {
        let nets = nets(cidrs);
        let got = judge(reach, address.parse().unwrap(), |address| holds(&nets, address));
        assert_eq!(got.is_ok(), want, "{reach:?} {address} {cidrs:?}");
    };
    check(Reach::Public, "1.1.1.1", &[], true);
    check(Reach::Listed, "1.1.1.1", &[], false);
    check(Reach::Listed, "1.1.1.1", &["1.1.1.0/24"], true);
    for hidden in ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "fd00:ec2::254", "64:ff9b::7f00:1"] {
        check(Reach::Public, hidden, &[], false);
    }
    check(Reach::Public, "::1", &["::1/128"], true);
    check(Reach::Public, "169.254.169.254", &["0.0.0.0/0"], false);
}

/// With http and every port allowed, so that only the address or the form can be the reason.
fn by_address() -> Rules {
    Rules { allow_http: true, ports: (1..=u16::MAX).collect(), allow_cidrs: Vec::new() }
}

fn check_hidden(url: &str) {
    let got = admit(&by_address(), url, &[]);
    assert!(matches!(got, Err(Refusal::Unlisted(_) | Refusal::Forbidden(_))), "{url}: {got:?}");
    let parsed: Url = url.parse().unwrap();
    assert!(permit(&by_address(), &parsed, &[]).is_err(), "{url}: stored earlier");
}

#[test]
fn c078_c080_c081_c082_addresses_in_other_spellings() {
    for host in ["[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::ffff:a9fe:a9fe]", "[::127.0.0.1]"] {
        check_hidden(&format!("http://{host}:9000/"));
    }
    for host in
        ["2130706433", "0x7f.1", "0177.0.0.1", "127.1", "0", "0.0.0.0", "127.0.0.%31", "127%2e0%2e0%2e1"]
    {
        check_hidden(&format!("http://{host}:9000/"));
    }
    for host in ["100.64.0.1", "169.254.169.254", "198.18.0.1", "255.255.255.255"] {
        check_hidden(&format!("http://{host}/"));
    }
    for host in ["[::1]", "[::]", "[0:0:0:0:0:0:0:1]"] {
        check_hidden(&format!("http://{host}:9000/"));
    }
    let check = |url: &str, want: Refusal| assert_eq!(admit(&by_address(), url, &[]), Err(want), "{url}");
    check("http://%6c%6f%63%61%6c%68%6f%73%74:9000/", Refusal::Name);
    check("http://[::1%25lo]:9000/", Refusal::Malformed);
}

#[test]
fn c085_c086_c087_two_readers_would_see_two_hosts() {
    let check = |url: &str, want: Refusal| assert_eq!(admit(&by_address(), url, &[]), Err(want), "{url}");
    for url in [
        "http://127.0.0.1:9000\\@hook.example.com/",
        "http://hook.example.com\\@127.0.0.1:9000/",
        "http:\\\\127.0.0.1:9000/",
    ] {
        check(url, Refusal::Characters);
    }
    check("http://hook.example.com:443@127.0.0.1:9000/", Refusal::UserInfo);
    check("http://a:b@c:d@127.0.0.1:9000/", Refusal::UserInfo);
    check("https://user:s3cretPw@hook.example.com/in?token=s3cretTok", Refusal::UserInfo);
}

#[test]
fn c088_a_dot_at_the_end_changes_nothing() {
    for url in ["http://localhost.:9000/", "http://metadata.example.internal./", "http://169.254.169.254./"] {
        assert!(admit(&by_address(), url, &[]).is_err(), "{url}");
    }
    let [with, without] = ["http://hook.example.com./", "http://hook.example.com/"];
    assert_eq!(admit(&by_address(), with, &[]), admit(&by_address(), without, &[]));
}

#[test]
fn c089_white_space_is_refused_wherever_it_stands() {
    for url in [
        "https://hook.example.com/in\n",
        " https://hook.example.com/in",
        "https://hook.example.com/i n",
        "https://hook.example.com/in\t?x=1",
    ] {
        assert_eq!(admit(&by_address(), url, &[]), Err(Refusal::Characters), "{url:?}");
    }
}

#[test]
fn c093_a_refusal_names_the_kind_and_the_setting() {
    let text = admit(&by_address(), "http://10.1.2.3/", &[]).unwrap_err().to_string();
    assert!(text.contains("private") && text.contains("allow_cidrs"), "{text}");
    for cidr in ["10.1.2.0/24", "10.1.2.3/32"] {
        assert!(admit(&strict(), "http://10.1.2.3:9000/", &nets(&[cidr])).is_ok(), "{cidr}");
    }
    assert!(
        admit(&by_address(), "http://127.0.0.1/", &nets(&["10.0.0.0/8"])).is_err(),
        "loopback is its own"
    );
}
