//! Every URL of the collection, sent: what is refused is not dialled, though it were stored, and
//! what is admitted leads where its parsed form says.

use duehook::sender::egress::{self, Rules};
use url::Url;

use super::guard::{BLOCKED, Canary, Changing, asking, send};
use super::raw::{Act, Raw};
use super::rules;

#[derive(serde::Deserialize)]
struct Vector {
    id: String,
    url: String,
    admit: bool,
}

fn vectors() -> Vec<Vector> {
    serde_json::from_str(include_str!("../../../src/sender/egress/urls.json")).unwrap()
}

/// What became of the vectors: none is passed over.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    /// Called, at the host that was admitted.
    admitted: u32,
    /// Not dialled, though they had been stored.
    blocked: u32,
    /// Refused for their text alone: what the parser makes of them is a public host.
    text: u32,
    /// No URL, so that none of them is ever stored.
    unreadable: u32,
}

/// T49: by way of a proxy, which is told every host that we would have called.
#[tokio::test]
async fn t49_every_vector_is_decided_again_when_it_is_sent() {
    let raw = Raw::start(|_| vec![Act::Say(b"HTTP/1.1 403 No\r\ncontent-length: 0\r\n\r\n"), Act::Close]);
    let raw = raw.await;
    let sender = asking(&Changing::new(&[&[]]), rules(), Some(&format!("http://{}", raw.address())));
    let (mut tally, all) = (Tally::default(), vectors());
    for Vector { id, url: text, admit } in &all {
        assert_eq!(egress::admit(&rules(), text, &[]).is_ok(), *admit, "{id}");
        let Ok(url) = text.parse::<Url>() else {
            assert!(!admit, "{id}");
            tally.unreadable += 1;
            continue;
        };
        let (before, seen) = (raw.requests(), send(&sender, url.as_str(), &[]).await);
        if raw.requests() == before {
            assert!(!admit && seen.outcome == BLOCKED, "{id} {text:?}: {seen:?}");
            tally.blocked += 1;
            continue;
        }
        let host = url.host_str().unwrap();
        let called = format!("CONNECT {host}:{} HTTP/1.1\r\n", url.port_or_known_default().unwrap());
        assert!(raw.heads().last().unwrap().starts_with(&called), "{id} {text:?}: {:?}", raw.heads().last());
        assert!(url.host().is_some_and(|host| matches!(host, url::Host::Domain(_))) || *admit, "{id}");
        *if *admit { &mut tally.admitted } else { &mut tally.text } += 1;
    }
    let Tally { admitted, blocked, text, unreadable } = tally;
    assert_eq!(u32::try_from(all.len()), Ok(admitted + blocked + text + unreadable));
    assert_eq!(tally, Tally { admitted: 14, blocked: 47, text: 4, unreadable: 6 });
}

/// T50: a name is admitted by its form, so its addresses decide, and at the connection.
#[tokio::test]
async fn t50_every_admitted_name_is_judged_by_where_it_leads() {
    let mut names = 0;
    for Vector { id, url, .. } in vectors().into_iter().filter(|it| it.admit) {
        let url = egress::admit(&rules(), &url, &[]).unwrap();
        let Some(name) = url.domain() else { continue };
        names += 1;
        for hidden in ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "fd00:ec2::254", "64:ff9b::7f00:1"]
        {
            let resolver = Changing::new(&[&[hidden]]);
            let seen = send(&asking(&resolver, rules(), None), url.as_str(), &[]).await;
            assert_eq!((seen.outcome, seen.address), (BLOCKED, None), "{id} {hidden}");
            // From the root: no search list makes another name of it.
            assert_eq!(resolver.asked(), [format!("{}.", name.trim_end_matches('.'))], "{id} {hidden}");
        }
    }
    assert_eq!(names, 11);
}

/// http and every port is open, so that only the address can be why.
fn by_address() -> Rules {
    Rules { allow_http: true, ports: (1..=u16::MAX).collect(), allow_cidrs: Vec::new() }
}

/// C078, C080, C081, C082: refused when they are registered, and again when they are sent; nobody
/// calls at the port.
#[tokio::test]
async fn c078_c080_c081_c082_no_spelling_of_an_address_is_dialled() {
    let raw = Raw::start(|_| vec![Act::Close]).await;
    let port = raw.address().port();
    let canary = Canary::beside(raw.address(), "127.0.0.2");
    let sender = asking(&Changing::new(&[&["127.0.0.1"]]), by_address(), None);
    let (mapped, local) = (["[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]"], ["[::1]", "[::]"]);
    let v4 = ["2130706433", "0x7f.1", "0177.0.0.1", "127.1", "0", "0.0.0.0"];
    let encoded = ["127.0.0.%31", "%6c%6f%63%61%6c%68%6f%73%74", "127%2e0%2e0%2e1"];
    let here = mapped.iter().chain(&local).chain(&v4).chain(&encoded).chain(&["[0:0:0:0:0:0:0:1]"]);
    let mut urls: Vec<String> = here.map(|host| format!("http://{host}:{port}/")).collect();
    let elsewhere = ["[::ffff:a9fe:a9fe]", "100.64.0.1", "169.254.169.254", "198.18.0.1", "255.255.255.255"];
    urls.extend(elsewhere.map(|host| format!("http://{host}/")));
    for url in &urls {
        assert!(egress::admit(&by_address(), url, &[]).is_err(), "{url}");
        let seen = send(&sender, url, &[]).await;
        assert_eq!((seen.outcome, seen.address), (BLOCKED, None), "{url}");
    }
    assert!(format!("http://[::1%25lo]:{port}/").parse::<Url>().is_err(), "a zone is no URL");
    assert_eq!((raw.connections(), canary.is_untouched()), (0, true));
}

/// T58: ports that are not for webhooks, registered or stored earlier.
#[tokio::test]
async fn t58_other_ports_are_refused_and_not_dialled() {
    let names = Changing::new(&[&["1.1.1.1"]]);
    let sender = asking(&names, rules(), None);
    for port in [22, 25, 80, 6379, 8460, 8461, 65_535] {
        for url in [format!("https://hooks.example.org:{port}/"), format!("https://1.1.1.1:{port}/")] {
            assert_eq!(egress::admit(&rules(), &url, &[]), Err(egress::Refusal::Port), "{url}");
            assert_eq!(send(&sender, &url, &[]).await.outcome, BLOCKED, "{url}");
        }
    }
    assert!(names.asked().is_empty(), "nobody is even looked up");
}
