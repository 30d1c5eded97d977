//! What may be dialled, when the answers of the resolver change, and by way of a proxy.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

use duehook::outcome::{NotSent, Outcome};
use duehook::sender::egress::resolver::{Looking, Names};
use duehook::sender::egress::{self, Rules};
use duehook::sender::{Config, Seen, Sender};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::raw::{Act, Raw};
use super::{LOOPBACK, endpoint, in_time, request, rules};

/// A resolver that has an answer for each time it is asked; the last one repeats.
#[derive(Debug)]
pub(super) struct Changing {
    answers: Mutex<VecDeque<Vec<IpAddr>>>,
    asked: Mutex<Vec<String>>,
}

impl Changing {
    pub(super) fn new(answers: &[&[&str]]) -> Arc<Changing> {
        let read = |texts: &&[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        let answers = Mutex::new(answers.iter().map(read).collect());
        Arc::new(Changing { answers, asked: Mutex::default() })
    }

    pub(super) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Names for Changing {
    fn look_up(&self, name: String) -> Looking {
        self.asked.lock().unwrap().push(name);
        let mut answers = self.answers.lock().unwrap();
        let next = if answers.len() > 1 { answers.pop_front().unwrap() } else { answers[0].clone() };
        Box::pin(async move { Ok(next.into_iter().map(|ip| SocketAddr::new(ip, 0)).collect()) })
    }
}

/// Listens where nobody may call: same port, another address.
pub(super) struct Canary(TcpListener);

impl Canary {
    pub(super) fn beside(address: SocketAddr, ip: &str) -> Canary {
        let listener = TcpListener::bind((ip.parse::<IpAddr>().unwrap(), address.port())).unwrap();
        listener.set_nonblocking(true).unwrap();
        Canary(listener)
    }

    pub(super) fn is_untouched(&self) -> bool {
        self.0.accept().is_err()
    }
}

pub(super) fn asking(names: &Arc<Changing>, rules: Rules, proxy: Option<&str>) -> Sender {
    let proxy = proxy.map(|text| text.parse().unwrap());
    let names: Arc<dyn Names> = Arc::clone(names) as Arc<dyn Names>;
    Sender::asking(Config { rules, proxy, ..Config::default() }, names).unwrap()
}

pub(super) async fn send(sender: &Sender, url: &str, cidrs: &[&str]) -> Seen {
    in_time(sender.send(request(endpoint(url, cidrs), "{}"))).await
}

pub(super) const BLOCKED: Outcome = Outcome::NotSent(NotSent::Blocked);
const CLOSING: &[u8] = b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n";
const KEPT: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n";

/// DNS rebinding: what was right at the registration and at the first send is judged anew.
#[tokio::test]
async fn t50_t51_a_name_that_moves_is_judged_at_every_connection() {
    let raw = Raw::start(|_| vec![Act::Say(CLOSING), Act::Close]).await;
    let canary = Canary::beside(raw.address(), "127.0.0.2");
    let names = Changing::new(&[&["127.0.0.1"], &["127.0.0.2"], &["169.254.169.254"], &["127.0.0.1"]]);
    let sender = asking(&names, rules(), None);
    let url = format!("http://hooks.example.org:{}/", raw.address().port());
    let cidrs = [LOOPBACK.parse().unwrap()];
    assert!(egress::admit(&rules(), &url, &cidrs).is_ok());
    assert!(names.asked().is_empty(), "a registration asks nobody");
    assert_eq!(send(&sender, &url, &[LOOPBACK]).await.outcome.status(), Some(204));
    for _ in 0..2 {
        let seen = send(&sender, &url, &[LOOPBACK]).await;
        assert_eq!(seen.outcome, BLOCKED, "{seen:?}");
    }
    assert_eq!(send(&sender, &url, &[LOOPBACK]).await.outcome.status(), Some(204));
    assert_eq!((names.asked().len(), raw.requests(), canary.is_untouched()), (4, 2, true));
}

/// C084: whichever comes first, only the record that may be called is.
#[tokio::test]
async fn c084_a_refused_record_is_never_fallen_back_to() {
    let raw = Raw::start(|_| vec![Act::Say(CLOSING), Act::Close]).await;
    let port = raw.address().port();
    let canary = Canary::beside(raw.address(), "127.0.0.2");
    // 127.0.0.3 may be called, and nobody listens there.
    for found in [["127.0.0.3", "127.0.0.2"], ["127.0.0.2", "127.0.0.3"]] {
        let sender = asking(&Changing::new(&[&found]), rules(), None);
        let seen = send(&sender, &format!("http://hooks.example.org:{port}/"), &["127.0.0.3/32"]).await;
        assert_eq!(seen.outcome, Outcome::NotSent(NotSent::Connect), "{found:?}");
    }
    let sender = asking(&Changing::new(&[&["127.0.0.2", "127.0.0.1"]]), rules(), None);
    let seen = send(&sender, &format!("http://hooks.example.org:{port}/"), &[LOOPBACK]).await;
    assert_eq!((seen.outcome.status(), canary.is_untouched()), (Some(204), true));
}

/// The connection of one destination is open and idle; the other has the same URL and no leave.
#[tokio::test]
async fn of_two_destinations_with_one_url_only_the_listed_one_is_called() {
    let raw = Raw::start(|_| vec![Act::Say(KEPT)]).await;
    let port = raw.address().port();
    let open = Rules { allow_http: true, ports: vec![port], allow_cidrs: Vec::new() };
    let sender = asking(&Changing::new(&[&["127.0.0.1"]]), open, None);
    for url in [raw.url(), format!("http://hooks.example.org:{port}/")] {
        let before = raw.requests();
        assert_eq!(send(&sender, &url, &[LOOPBACK]).await.outcome.status(), Some(204), "{url}");
        assert_eq!(send(&sender, &url, &[]).await.outcome, BLOCKED, "{url}");
        assert_eq!(send(&sender, &url, &["10.0.0.0/8"]).await.outcome, BLOCKED, "{url}");
        assert_eq!(send(&sender, &url, &[LOOPBACK]).await.outcome.status(), Some(204), "{url}");
        assert_eq!(raw.requests(), before + 2, "{url}");
    }
    assert_eq!(raw.connections(), 2);
}

/// C091: a URL without a path.
#[tokio::test]
async fn c091_no_path_is_the_root() {
    let raw = Raw::start(|_| vec![Act::Say(KEPT)]).await;
    let sender = asking(&Changing::new(&[&[]]), rules(), None);
    for (end, want) in [("", "POST / HTTP/1.1\r\n"), ("?x=1", "POST /?x=1 HTTP/1.1\r\n")] {
        let url = format!("http://{}{end}", raw.address());
        assert_eq!(send(&sender, &url, &[LOOPBACK]).await.outcome.status(), Some(204));
        let heads = raw.heads();
        assert!(heads.last().unwrap().starts_with(want), "{heads:?}");
    }
}

fn public_http() -> Rules {
    Rules { allow_http: true, ports: vec![80, 443], allow_cidrs: Vec::new() }
}

#[tokio::test]
async fn an_http_proxy_is_given_the_name_and_literals_are_judged() {
    let raw = Raw::start(|_| vec![Act::Say(KEPT)]).await;
    let names = Changing::new(&[&["10.0.0.1"]]);
    let proxy = format!("http://{}", raw.address());
    let sender = asking(&names, public_http(), Some(&proxy));
    let seen = send(&sender, "http://hooks.example.org/a?b=1", &[]).await;
    assert_eq!((seen.outcome.status(), seen.address), (Some(204), None), "the receiver is not seen");
    assert!(
        raw.heads()[0].starts_with("POST http://hooks.example.org/a?b=1 HTTP/1.1\r\n"),
        "{:?}",
        raw.heads()
    );
    assert!(names.asked().is_empty(), "the proxy looks it up");
    for url in ["http://10.0.0.1/", "http://169.254.169.254/", "http://127.0.0.1/", "http://intranet/"] {
        assert_eq!(send(&sender, url, &[]).await.outcome, BLOCKED, "{url}");
    }
    // A name that only its address could admit, and the proxy itself.
    assert_eq!(send(&sender, "http://intranet/", &["10.0.0.0/8"]).await.outcome, BLOCKED);
    assert_eq!(send(&sender, &format!("{proxy}/"), &[LOOPBACK]).await.outcome, BLOCKED);
    assert_eq!(send(&sender, "http://10.0.0.1/", &["10.0.0.0/8"]).await.outcome.status(), Some(204));
    assert_eq!(raw.requests(), 2);
}

/// The proxy is ours, wherever its name leads; what it refuses is not the receiver's doing.
#[tokio::test]
async fn a_proxy_by_name_and_what_it_refuses() {
    let raw = Raw::start(|n| match n {
        1 => vec![Act::Say(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n"), Act::Close],
        _ => vec![Act::Say(b"HTTP/1.1 407 Who\r\ncontent-length: 0\r\n\r\n"), Act::Close],
    })
    .await;
    let names = Changing::new(&[&["127.0.0.1"]]);
    let proxy = format!("http://proxy.corp:{}", raw.address().port());
    let sender = asking(&names, public_http(), Some(&proxy));
    let refused = Outcome::NotSent(NotSent::Connect);
    for url in ["https://hooks.example.org/", "https://hooks.example.org/", "http://hooks.example.org/"] {
        let seen = send(&sender, url, &[]).await;
        assert_eq!(seen.outcome, refused, "{url} {seen:?}");
    }
    let heads = raw.heads();
    assert!(heads[0].starts_with("CONNECT hooks.example.org:443 HTTP/1.1\r\n"), "{heads:?}");
    assert!(heads[2].starts_with("POST http://hooks.example.org/"), "{heads:?}");
    assert!(names.asked().iter().all(|name| name == "proxy.corp"), "{:?}", names.asked());
}

/// A SOCKS proxy that notes which address it was told, and answers in the receiver's place.
struct Socks {
    address: SocketAddr,
    noted: Arc<Mutex<Noted>>,
    _tasks: JoinSet<()>,
}

#[derive(Default)]
struct Noted {
    told: Vec<Vec<u8>>,
    heads: Vec<String>,
}

impl Socks {
    async fn start(answer: &'static [u8]) -> Socks {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, noted) = (listener.local_addr().unwrap(), Arc::default());
        let mut tasks = JoinSet::new();
        let book = Arc::clone(&noted);
        tasks.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                drop(talk(stream, &book, answer).await);
            }
        });
        Socks { address, noted, _tasks: tasks }
    }
}

/// RFC 1928: no authentication, CONNECT to an IPv4 address.
async fn talk(mut stream: TcpStream, noted: &Mutex<Noted>, answer: &[u8]) -> std::io::Result<()> {
    let mut greeting = [0; 2];
    stream.read_exact(&mut greeting).await?;
    stream.read_exact(&mut vec![0; greeting[1].into()]).await?;
    stream.write_all(&[5, 0]).await?;
    let mut asked = vec![0; 10];
    stream.read_exact(&mut asked).await?;
    noted.lock().unwrap().told.push(asked);
    stream.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
    let mut head = [0; 4096];
    let read = stream.read(&mut head).await?;
    noted.lock().unwrap().heads.push(String::from_utf8_lossy(&head[..read]).into_owned());
    stream.write_all(answer).await
}

#[tokio::test]
async fn a_socks_proxy_is_told_addresses_that_were_judged() {
    let socks = Socks::start(CLOSING).await;
    let names = Changing::new(&[&["1.1.1.1"], &["10.0.0.1"], &["10.0.0.1", "127.0.0.1"]]);
    let sender = asking(&names, public_http(), Some(&format!("socks5://{}", socks.address)));
    let url = "http://hooks.example.org/";
    assert_eq!(send(&sender, url, &[]).await.outcome.status(), Some(204));
    let seen = send(&sender, url, &[]).await;
    assert_eq!(seen.outcome, BLOCKED, "{seen:?}");
    assert_eq!(send(&sender, "http://intranet/", &[LOOPBACK]).await.outcome.status(), Some(204));
    let told = socks.noted.lock().unwrap().told.clone();
    assert_eq!(told, [[5, 1, 0, 1, 1, 1, 1, 1, 0, 80], [5, 1, 0, 1, 127, 0, 0, 1, 0, 80]]);
}

/// The dot is for the resolver alone. An address needs none.
#[tokio::test]
async fn a_public_name_is_looked_up_from_the_root_and_named_without_the_dot() {
    let socks = Socks::start(CLOSING).await;
    let names = Changing::new(&[&["1.1.1.1"]]);
    let sender = asking(&names, public_http(), Some(&format!("socks5://{}", socks.address)));
    for url in ["http://hooks.example.org/", "http://1.1.1.1/"] {
        assert_eq!(send(&sender, url, &[]).await.outcome.status(), Some(204), "{url}");
    }
    assert_eq!(names.asked(), ["hooks.example.org."]);
    let heads = socks.noted.lock().unwrap().heads.clone();
    assert!(heads[0].contains("host: hooks.example.org\r\n"), "{heads:?}");
    assert!(heads[1].contains("host: 1.1.1.1\r\n"), "{heads:?}");
}

/// What comes through a tunnel is the receiver's: it has had the request.
#[tokio::test]
async fn a_407_through_a_tunnel_is_an_answer() {
    let socks = Socks::start(b"HTTP/1.1 407 Who\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await;
    let names = Changing::new(&[&["1.1.1.1"]]);
    let sender = asking(&names, public_http(), Some(&format!("socks5://{}", socks.address)));
    let seen = send(&sender, "http://hooks.example.org/", &[]).await;
    assert_eq!((seen.outcome.status(), seen.error.as_deref()), (Some(407), None), "{seen:?}");
}
