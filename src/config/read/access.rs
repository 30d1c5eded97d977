//! Listeners and tokens by their keys, and which of them must agree.

use std::net::SocketAddr;

use super::super::access::{Auth, Listen, Listener, Scope, TlsFiles, Token};
use super::super::error::{ConfigError, Origin};
use super::super::layers::{Layers, Origins};
use super::super::value::{Reading, Value};
use super::{MAX_LIST, Settings, agree, invalid, name, optional_path};
use crate::model::Name;

/// Tokens: each is compared with what every request brings.
const MAX_TOKENS: usize = 256;
/// Tenants that one token is pinned to.
const MAX_PINNED: usize = 1_000;
/// Bytes of the path of a unix socket (unix(7)).
const MAX_SOCKET_PATH: usize = 107;

/// The listener of `table`, unless its `listen` is empty where that is allowed.
pub(super) fn listener(
    layers: &mut Layers,
    table: &str,
    default: Option<Listen>,
) -> Result<Option<Listener>, ConfigError> {
    let may_be_off = default.is_none();
    let origin = layers.origin(&[table, "listen"]);
    let listen = layers.take(&[table, "listen"], default, |value| match value.text()? {
        "" if may_be_off => Ok(None),
        _ => listen(value).map(Some),
    })?;
    let auths = [Auth::None, Auth::Token].map(|auth| (auth.as_str(), auth));
    let auth_origin = layers.origin(&[table, "auth"]);
    let auth = layers.take(&[table, "auth"], None, |value| value.choice(&auths).map(Some))?;
    let tls = tls(layers, table)?;
    let plaintext = layers.take(&[table, "plaintext"], false, Value::truth)?;
    let allowed_hosts =
        layers.take(&[table, "allowed_hosts"], Vec::new(), |value| value.list(MAX_LIST, Value::host))?;
    let Some(listen) = listen else { return Ok(None) };
    agree(
        tls.is_none() || matches!(listen, Listen::Tcp(_)),
        &format!("{table}.tls_cert"),
        origin.clone(),
        || "left out where listen is unix:".into(),
    )?;
    let usual = Listener::at(listen);
    let made = Listener { auth: auth.unwrap_or(usual.auth), tls, plaintext, allowed_hosts, ..usual };
    safe(table, &made, origin, auth_origin)?;
    Ok(Some(made))
}

fn tls(layers: &mut Layers, table: &str) -> Result<Option<TlsFiles>, ConfigError> {
    let origin = layers.origin(&[table, "tls_cert"]);
    let cert = layers.take(&[table, "tls_cert"], None, optional_path)?;
    let key = layers.take(&[table, "tls_key"], None, optional_path)?;
    match (cert, key) {
        (Some(cert), Some(key)) => Ok(Some(TlsFiles { cert, key })),
        (None, None) => Ok(None),
        _ => {
            Err(invalid(&format!("{table}.tls_cert"), origin, format!("given together with {table}.tls_key")))
        }
    }
}

/// What is refused off loopback, metrics apart: no token, and tokens in the clear.
fn safe(table: &str, it: &Listener, origin: Origin, auth_origin: Origin) -> Result<(), ConfigError> {
    if it.listen.is_local() {
        return Ok(());
    }
    let open = it.auth == Auth::None && table != "metrics";
    agree(!open, &format!("{table}.auth"), auth_origin, || {
        format!("\"token\": {table}.listen {} can be reached from other machines", it.listen)
    })?;
    let clear = it.tls.is_none() && !it.plaintext;
    agree(!clear, &format!("{table}.listen"), origin, || {
        format!(
            "on loopback, or have {table}.tls_cert and {table}.tls_key, or {table}.plaintext = true where a TLS \
             proxy stands in front"
        )
    })
}

fn listen(value: &Value) -> Reading<Listen> {
    let text = value.text()?;
    if let Some(path) = text.strip_prefix("unix:") {
        let good = path.starts_with('/') && path.len() <= MAX_SOCKET_PATH && !path.contains('\0');
        return good
            .then(|| Listen::Unix(path.into()))
            .ok_or_else(|| format!("unix: and an absolute path of at most {MAX_SOCKET_PATH} bytes"));
    }
    let address: Option<SocketAddr> = text.parse().ok();
    address
        .map(Listen::Tcp)
        .ok_or_else(|| "an address and port such as \"127.0.0.1:8460\", or unix: and a path".into())
}

/// Every `[[token]]`.
pub(super) fn tokens(layers: &mut Layers) -> Result<Vec<Token>, ConfigError> {
    let places = layers.named("token");
    agree(places.len() <= MAX_TOKENS, "token", Origin::Default, || format!("at most {MAX_TOKENS} tokens"))?;
    let mut all: Vec<Token> = Vec::new();
    for (place, origin) in places {
        let token = token(layers, &place, &origin)?;
        let twice = all.iter().any(|other| other.id == token.id || other.sha256 == token.sha256);
        agree(!twice, "token.id", origin, || "another one for each token, as its sha256".into())?;
        all.push(token);
    }
    Ok(all)
}

fn token(layers: &mut Layers, place: &str, origin: &Origin) -> Result<Token, ConfigError> {
    let missing = |key: &str| invalid(&format!("token.{key}"), origin.clone(), "given for each token".into());
    let id = layers.take(&["token", place, "id"], None, |value| name(value).map(Some))?;
    let sha256 = layers.take(&["token", place, "sha256"], None, |value| digest(value).map(Some))?;
    let scopes = layers.take(&["token", place, "scopes"], Vec::new(), scopes)?;
    let tenants = layers.take(&["token", place, "tenants"], None, |value| pinned(value).map(Some))?;
    Ok(Token {
        id: id.ok_or_else(|| missing("id"))?,
        sha256: sha256.ok_or_else(|| missing("sha256"))?,
        scopes: if scopes.is_empty() { return Err(missing("scopes")) } else { scopes },
        tenants,
    })
}

fn scopes(value: &Value) -> Reading<Vec<Scope>> {
    let words = Scope::ALL.map(|scope| (scope.as_str(), scope));
    value.list(Scope::ALL.len(), |item| item.choice(&words))
}

/// An empty list would be a token for nobody, or for all: it is neither.
fn pinned(value: &Value) -> Reading<Vec<Name>> {
    let tenants = value.list(MAX_PINNED, name)?;
    if tenants.is_empty() {
        Err("a list of tenants, or left out for all of them".into())
    } else {
        Ok(tenants)
    }
}

/// 64 hexadecimal digits.
fn digest(value: &Value) -> Reading<[u8; 32]> {
    let text = value.text()?;
    let allowed = || "64 hexadecimal digits, as duehook token new prints them".to_owned();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |pair: &[u8]| Some(u8::try_from(digit(pair[0])? << 4 | digit(pair[1])?).unwrap_or(0));
    let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).filter(|pair| pair.len() == 2).map(byte).collect();
    let whole = bytes.filter(|_| text.len() == 64).and_then(|bytes| bytes.try_into().ok());
    whole.ok_or_else(allowed)
}

/// The table and listener of each that there is.
fn all(settings: &Settings) -> impl Iterator<Item = (&'static str, &Listener)> {
    let metrics = settings.metrics.as_ref().map(|listener| ("metrics", listener));
    [("ingest", &settings.ingest.listener), ("admin", &settings.admin)].into_iter().chain(metrics)
}

/// Where the first of these keys that was set was set.
fn origin(origins: &Origins, table: &str, keys: &[&str]) -> Origin {
    let set = keys.iter().find_map(|key| origins.get(&[table, key].map(str::to_owned)[..]));
    set.cloned().unwrap_or(Origin::Default)
}

/// Port 0 is a different port each time.
pub(super) fn addresses_differ(settings: &Settings, origins: &Origins) -> Result<(), ConfigError> {
    let any = |listen: &Listen| matches!(listen, Listen::Tcp(address) if address.port() == 0);
    let fixed: Vec<_> = all(settings).filter(|(_, listener)| !any(&listener.listen)).collect();
    for (at, (table, listener)) in fixed.iter().enumerate() {
        let same = fixed[..at].iter().find(|(_, other)| other.listen == listener.listen);
        let Some((other, _)) = same else { continue };
        // What was set is at fault rather than what was left as it was.
        let set = origin(origins, table, &["listen"]);
        let (table, other) = if set == Origin::Default { (other, table) } else { (table, other) };
        let allowed =
            format!("another address for each listener: {other}.listen is {} as well", listener.listen);
        return Err(invalid(&format!("{table}.listen"), origin(origins, table, &["listen"]), allowed));
    }
    Ok(())
}

/// `token` where no token opens it would be a locked door without a key.
pub(super) fn keys_fit(settings: &Settings, origins: &Origins) -> Result<(), ConfigError> {
    // What /metrics says is about every tenant: a token that is pinned does not open it.
    let opens = |table: &str, scopes: &[Scope]| {
        let fits = |token: &Token| token.scopes.iter().any(|scope| scopes.contains(scope));
        let pinned = |token: &Token| table == "metrics" && token.tenants.is_some();
        settings.tokens.iter().any(|token| fits(token) && !pinned(token))
    };
    for (table, listener) in all(settings) {
        let scopes = match table {
            "ingest" => &[Scope::Ingest, Scope::Read, Scope::Admin][..],
            "metrics" => &[Scope::Read, Scope::Admin],
            _ => &Scope::ALL,
        };
        let locked = listener.auth == Auth::Token && !opens(table, scopes);
        agree(!locked, &format!("{table}.auth"), origin(origins, table, &["auth", "listen"]), || {
            let words: Vec<&str> = scopes.iter().map(|scope| scope.as_str()).collect();
            let none = if listener.listen.is_local() { "\"none\", or " } else { "" };
            format!(
                "{none}\"token\" with a [[token]] that opens it, of scope {}: duehook token new makes one",
                words.join(" or ")
            )
        })?;
    }
    Ok(())
}
