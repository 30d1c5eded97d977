//! The sender over TLS: certificates, and HTTP/2 receivers that do not take a request.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use duehook::model::{Certificates, ClientCertificate};
use duehook::outcome::{NotSent, Outcome};
use duehook::sender::{Config, Endpoint, Seen, Sender};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::{LOOPBACK, endpoint, in_time, request, rules};

/// A private authority, and the PEM that makes a sender trust it.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn sender(&self) -> Sender {
        self.sender_by(None)
    }

    fn sender_by(&self, proxy: Option<String>) -> Sender {
        let proxy = proxy.map(|url| url.parse().unwrap());
        let ca_pem = Some(self.0.pem().into_bytes());
        Sender::new(Config { rules: rules(), ca_pem, proxy, ..Config::default() }).unwrap()
    }

    /// A certificate that shows who its bearer is, with its key, both in PEM.
    fn identify(&self, name: &str) -> ClientCertificate {
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new([name.to_owned()]).unwrap().signed_by(&key, &self.0).unwrap();
        ClientCertificate { chain: certificate.pem().into(), key: key.serialize_pem().into() }
    }

    /// The same receiver for those who show a certificate of this authority.
    fn certify_for_known(&self, name: &str) -> ServerConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(&provider)).build().unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new([name.to_owned()]).unwrap().signed_by(&key, &self.0).unwrap();
        ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier)
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
            )
            .unwrap()
    }

    /// A certificate for `name` that is valid until the end of `year`.
    fn certify(&self, name: &str, year: i32, alpn: &str) -> ServerConfig {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(year, 12, 31);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
            )
            .unwrap();
        config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
        config
    }
}

/// How the receiver speaks once TLS stands.
#[derive(Clone, Copy)]
enum Speech {
    /// With this answer, when the whole request is there.
    Http1(&'static [u8]),
    /// These frames, after the request's headers.
    Http2(&'static [u8]),
}

/// A TLS receiver. It stops when dropped.
struct Secure {
    address: SocketAddr,
    /// Bytes it read inside TLS.
    read: Arc<AtomicU64>,
    _tasks: JoinSet<()>,
}

impl Secure {
    async fn start(config: ServerConfig, speech: Speech) -> Secure {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, read) = (listener.local_addr().unwrap(), Arc::new(AtomicU64::new(0)));
        let mut tasks = JoinSet::new();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        tasks.spawn(accept(listener, acceptor, speech, Arc::clone(&read)));
        Secure { address, read, _tasks: tasks }
    }

    async fn answer(&self, sender: &Sender) -> Seen {
        self.answer_to(sender, None).await
    }

    /// What it answers a destination with certificates of its own.
    async fn answer_to(&self, sender: &Sender, tls: Option<Certificates>) -> Seen {
        let url = format!("https://{}/t0ken", self.address);
        let endpoint = Endpoint { tls, ..endpoint(&url, &[LOOPBACK]) };
        in_time(sender.send(request(endpoint, vec![b'x'; 200_000]))).await
    }
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, speech: Speech, read: Arc<AtomicU64>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        connections.spawn(talk(stream, acceptor.clone(), speech, Arc::clone(&read)));
    }
}

async fn talk(stream: TcpStream, acceptor: TlsAcceptor, speech: Speech, read: Arc<AtomicU64>) {
    let Ok(mut stream) = acceptor.accept(stream).await else { return };
    match speech {
        Speech::Http1(answer) => http1(&mut stream, &read, answer).await,
        Speech::Http2(frames) => {
            let _ = http2(&mut stream, frames).await;
        }
    }
}

const TAKEN: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n";

async fn http1(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), read: &AtomicU64, answer: &[u8]) {
    let mut buffer = [0; 64 * 1024];
    while let Ok(n @ 1..) = stream.read(&mut buffer).await {
        if read.fetch_add(n as u64, Ordering::AcqRel) + n as u64 > 200_000 {
            let _ = stream.write_all(answer).await;
        }
    }
}

const SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";
/// RST_STREAM of stream 1, REFUSED_STREAM.
const REFUSED: &[u8] = b"\0\0\x04\x03\0\0\0\0\x01\0\0\0\x07";
/// RST_STREAM of stream 1, INTERNAL_ERROR.
const BROKEN: &[u8] = b"\0\0\x04\x03\0\0\0\0\x01\0\0\0\x02";
/// GOAWAY: the last stream is 0, NO_ERROR.
const GOAWAY: &[u8] = b"\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\0";
/// HEADERS of stream 1 with a block that is not HPACK.
const GARBAGE: &[u8] = b"\0\0\x02\x01\x05\0\0\0\x01\xff\xff";

async fn http2(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), frames: &[u8]) -> std::io::Result<()> {
    stream.write_all(SETTINGS).await?;
    stream.read_exact(&mut [0; 24]).await?;
    while frame_kind(stream).await? != 1 {}
    stream.write_all(frames).await?;
    while frame_kind(stream).await.is_ok() {}
    Ok(())
}

async fn frame_kind(stream: &mut (impl AsyncRead + Unpin)) -> std::io::Result<u8> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).await?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
    stream.read_exact(&mut vec![0; length]).await?;
    Ok(head[3])
}

#[tokio::test]
async fn c070_t55_certificates_that_do_not_hold() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let cases = [
        ("good", ours.certify("127.0.0.1", 2090, "http/1.1"), None),
        ("expired", ours.certify("127.0.0.1", 2002, "http/1.1"), Some("expired")),
        ("wrong name", ours.certify("other.example", 2090, "http/1.1"), Some("not valid for name")),
        ("unknown issuer", other.certify("127.0.0.1", 2090, "http/1.1"), Some("unknownissuer")),
    ];
    for (case, config, reason) in cases {
        let receiver = Secure::start(config, Speech::Http1(TAKEN)).await;
        let seen = receiver.answer(&ours.sender()).await;
        match reason {
            None => assert_eq!(seen.outcome.status(), Some(204), "{case}: {seen:?}"),
            Some(reason) => {
                assert_eq!(seen.outcome, Outcome::NotSent(NotSent::Tls), "{case}: {seen:?}");
                assert!(seen.error.unwrap().contains(reason), "{case}");
                assert_eq!(receiver.read.load(Ordering::Acquire), 0, "{case}: nothing was sent");
            }
        }
    }
}

/// A ServerHello of TLS 1.1, in a record of its own: version, random, no session, a cipher.
fn old_hello() -> Vec<u8> {
    [&[0x16, 3, 2, 0, 0x2a, 2, 0, 0, 0x26, 3, 2][..], &[7; 32], &[0, 0, 0x2f, 0]].concat()
}

/// No server that speaks only TLS 1.1 can be had from rustls: this one says that it does.
#[tokio::test]
async fn t55_a_receiver_without_tls_1_2_is_given_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = [0; 5];
        stream.read_exact(&mut head).await.unwrap();
        stream.read_exact(&mut vec![0; u16::from_be_bytes([head[3], head[4]]).into()]).await.unwrap();
        stream.write_all(&old_hello()).await.unwrap();
        let mut rest = Vec::new();
        drop(stream.read_to_end(&mut rest).await);
        rest
    });
    let sender = Authority::new("ours").sender();
    let seen =
        in_time(sender.send(request(endpoint(&format!("https://{address}/"), &[LOOPBACK]), "{}"))).await;
    assert_eq!(seen.outcome, Outcome::NotSent(NotSent::Tls), "{seen:?}");
    let rest = in_time(tasks.join_next()).await.unwrap().unwrap();
    assert!(rest.is_empty() || rest[0] == 0x15, "an alert at most: {rest:?}");
}

async fn check_http2(frames: &'static [u8], want: Outcome) {
    let ours = Authority::new("ours");
    let receiver = Secure::start(ours.certify("127.0.0.1", 2090, "h2"), Speech::Http2(frames)).await;
    let seen = receiver.answer(&ours.sender()).await;
    assert_eq!(seen.outcome, want, "{seen:?}");
}

#[tokio::test]
async fn c046_streams_above_the_last_of_a_goaway_were_not_processed() {
    check_http2(GOAWAY, Outcome::NotSent(NotSent::NotProcessed)).await;
}

#[tokio::test]
async fn c047_a_refused_stream_was_not_processed() {
    check_http2(REFUSED, Outcome::NotSent(NotSent::NotProcessed)).await;
}

#[tokio::test]
async fn other_ends_of_a_stream_may_have_been_processed() {
    check_http2(BROKEN, super::ambiguous()).await;
    check_http2(GARBAGE, super::invalid()).await;
}

/// A destination's own authority is trusted for that destination alone.
#[tokio::test]
async fn a_private_authority_is_trusted_where_it_was_named() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let receiver = Secure::start(other.certify("127.0.0.1", 2090, "http/1.1"), Speech::Http1(TAKEN)).await;
    let sender = ours.sender();
    let trusting = || Some(Certificates { ca: Some(other.0.pem().into()), client: None });
    let check = async |tls: Option<Certificates>, want: Option<u16>| {
        let seen = receiver.answer_to(&sender, tls).await;
        assert_eq!(seen.outcome.status(), want, "{seen:?}");
    };
    check(None, None).await;
    check(trusting(), Some(204)).await;
    check(None, None).await;
}

#[tokio::test]
async fn a_client_certificate_is_shown_where_it_was_named() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let receiver = Secure::start(ours.certify_for_known("127.0.0.1"), Speech::Http1(TAKEN)).await;
    let sender = ours.sender();
    let check = async |client: Option<ClientCertificate>, want: Option<u16>| {
        let seen =
            receiver.answer_to(&sender, client.map(|one| Certificates { ca: None, client: Some(one) }));
        let seen = seen.await;
        assert_eq!(seen.outcome.status(), want, "{seen:?}");
    };
    check(None, None).await;
    check(Some(ours.identify("us.example")), Some(204)).await;
    check(Some(other.identify("us.example")), None).await;
    check(None, None).await;
}

/// An http proxy that makes tunnels. It stops when dropped.
struct Tunnels {
    address: SocketAddr,
    _tasks: JoinSet<()>,
}

impl Tunnels {
    async fn to(receiver: SocketAddr) -> Tunnels {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let (mut near, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(near.read_u8().await.unwrap());
            }
            near.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").await.unwrap();
            let mut far = TcpStream::connect(receiver).await.unwrap();
            drop(tokio::io::copy_bidirectional(&mut near, &mut far).await);
        });
        Tunnels { address, _tasks: tasks }
    }
}

/// The proxy cannot have said that: it does not see what goes through. The receiver has the request.
#[tokio::test]
async fn a_407_inside_tls_is_the_receivers_answer() {
    let ours = Authority::new("ours");
    let answer = Speech::Http1(b"HTTP/1.1 407 Who\r\ncontent-length: 0\r\n\r\n");
    let receiver = Secure::start(ours.certify("127.0.0.1", 2090, "http/1.1"), answer).await;
    let proxy = Tunnels::to(receiver.address).await;
    let sender = ours.sender_by(Some(format!("http://localhost:{}", proxy.address.port())));
    let seen = receiver.answer(&sender).await;
    assert_eq!((seen.outcome.status(), seen.error.as_deref()), (Some(407), None), "{seen:?}");
}
