//! Who asks, and whether they may: tokens, their scopes and the tenants they are pinned to.
//!
//! Every route but `/healthz` and `/readyz` stands behind [`authorise`]. A token is known by its
//! SHA-256 only, and is compared with every one there is in constant time. Nothing here logs one.

mod needs;
mod tenancy;

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{FromRequestParts, MatchedPath, RawPathParams, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

use crate::config::{Auth, Scope, Token};
use crate::engine::command::{Order, Seen};
use crate::http::app::{App, Entry};
use crate::http::error::{Code, Problem};
use crate::http::status;
use crate::model::Name;

pub use needs::{Needs, needs};
pub use tenancy::is_of_all_tenants;

/// The scheme of a bearer token (RFC 6750, section 2.1); its case does not matter.
const BEARER: &str = "bearer ";
/// Bytes of a token that are looked at: ours have 64.
const MAX_TOKEN: usize = 512;

/// The tokens that are known now. They can be changed while the server runs.
#[derive(Debug, Default)]
pub struct Keyring(RwLock<Arc<[Token]>>);

impl Keyring {
    /// Knows these.
    #[must_use]
    pub fn new(tokens: Vec<Token>) -> Keyring {
        Keyring(RwLock::new(tokens.into()))
    }

    /// Knows these and no others from now on.
    pub fn replace(&self, tokens: Vec<Token>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = tokens.into();
    }

    /// The token of this text. Every one is compared, so that the time tells nothing.
    fn find(&self, text: &str) -> Option<Token> {
        let digest = Sha256::digest(text.as_bytes());
        let all = Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner));
        let fits = |token: &&Token| verify_slices_are_equal(&token.sha256, &digest).is_ok();
        all.iter().filter(fits).fold(None, |_, token| Some(token.clone()))
    }
}

/// What one listener asks for.
#[derive(Clone)]
pub struct Guard {
    pub app: Arc<App>,
    pub of: Entry,
}

/// On whose behalf a request that came by a unix socket is made, as the kernel says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    pub uid: u32,
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// `operator`, `uid:1000` or `token:shop`: as the audit log has it.
    by: Arc<str>,
    /// None: all.
    scopes: Option<Arc<[Scope]>>,
    /// None: all.
    tenants: Option<Arc<[Name]>>,
}

impl Caller {
    /// Whoever reaches a listener that asks for nothing.
    #[must_use]
    pub fn local(peer: Option<Peer>) -> Caller {
        let by = peer.map_or("operator".into(), |peer| format!("uid:{}", peer.uid).into());
        Caller { by, scopes: None, tenants: None }
    }

    fn bearer(token: Token) -> Caller {
        let scopes = (!token.scopes.contains(&Scope::Admin)).then(|| token.scopes.into());
        let by = format!("token:{}", token.id).into();
        Caller { by, scopes, tenants: token.tenants.map(Into::into) }
    }

    /// Its name in what it changes.
    #[must_use]
    pub fn by(&self) -> &str {
        &self.by
    }

    /// The same, to be kept.
    #[must_use]
    pub fn name(&self) -> Arc<str> {
        Arc::clone(&self.by)
    }

    /// Its order to the engine.
    #[must_use]
    pub fn orders<T>(&self, what: T) -> Order<T> {
        Order { by: Arc::clone(&self.by), tenants: self.tenants.clone(), what }
    }

    /// True when it has one of these scopes.
    #[must_use]
    pub fn has(&self, any: &[Scope]) -> bool {
        self.scopes.as_ref().is_none_or(|own| own.iter().any(|scope| any.contains(scope)))
    }

    /// The tenants it is pinned to; None: it may deal with all.
    #[must_use]
    pub fn tenants(&self) -> Option<&[Name]> {
        self.tenants.as_deref()
    }

    /// The same, for the engine.
    #[must_use]
    pub fn seen(&self) -> Seen {
        self.tenants.clone()
    }

    /// True when the tenant's things are its business.
    #[must_use]
    pub fn sees(&self, tenant: &Name) -> bool {
        self.tenants.as_ref().is_none_or(|own| own.contains(tenant))
    }

    /// It may change what is this tenant's.
    ///
    /// # Errors
    /// 403 `tenant_not_allowed`.
    pub fn may_change(&self, tenant: &Name) -> Result<(), Problem> {
        if self.sees(tenant) { Ok(()) } else { Err(tenant_not_allowed()) }
    }

    /// Of the tenants a list is asked for, those that it may see; none of `asked` means all.
    #[must_use]
    pub fn among(&self, asked: Vec<Name>) -> Vec<Name> {
        match &self.tenants {
            None => asked,
            Some(own) if asked.is_empty() => own.to_vec(),
            Some(own) => asked.into_iter().filter(|tenant| own.contains(tenant)).collect(),
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Caller, Problem> {
        let unguarded = || Problem::new(Code::Internal, "this route is not guarded");
        parts.extensions.get().cloned().ok_or_else(unguarded)
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("of", &self.of).finish_non_exhaustive()
    }
}

/// Lets a request through to its route, with its [`Caller`], or answers 401, 403 or 404.
pub async fn authorise(
    State(guard): State<Guard>,
    path: MatchedPath,
    params: Result<RawPathParams, RawPathParamsRejection>,
    mut request: Request,
    next: Next,
) -> Response {
    let method = request.method().clone();
    let browser = status::is_asked_for(&request);
    let admitted = match admit(&guard, &request, path.as_str()) {
        Ok(caller) => pinned(&guard.app, caller, &method, path.as_str(), params).await,
        Err(problem) => Err(problem.closing()),
    };
    match admitted {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(problem) if browser && problem.code == Code::TokenRequired => status::locked(),
        Err(problem) => problem.into_response(),
    }
}

/// Who asks, if it has a scope that the route takes.
fn admit(guard: &Guard, request: &Request, route: &str) -> Result<Caller, Problem> {
    let caller = caller(guard, request)?;
    let needs = needs(request.method(), route);
    if caller.has(needs.any_of) { Ok(caller) } else { Err(scope_missing(needs.any_of)) }
}

/// The same caller, if what the path names is its business.
async fn pinned(
    app: &App,
    caller: Caller,
    method: &Method,
    route: &str,
    params: Result<RawPathParams, RawPathParamsRejection>,
) -> Result<Caller, Problem> {
    let params = params.map_err(|_| Problem::new(Code::Malformed, "the path is not UTF-8"))?;
    if let Some(own) = caller.tenants() {
        tenancy::check(app, own, method, route, &params).await?;
    }
    Ok(caller)
}

fn caller(guard: &Guard, request: &Request) -> Result<Caller, Problem> {
    match guard.app.rulebook().auth(guard.of) {
        Auth::None => Ok(Caller::local(request.extensions().get().copied())),
        Auth::Token => {
            let token = bearer(request.headers()).and_then(|text| guard.app.keyring.find(text));
            token.map(Caller::bearer).ok_or_else(token_required)
        }
    }
}

/// The token of the one `Authorization` header. One in the query is not looked at.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut lines = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(line), None) = (lines.next(), lines.next()) else { return None };
    let line = line.to_str().ok()?;
    let (scheme, token) = line.split_at_checked(BEARER.len())?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case(BEARER) && !token.is_empty() && token.len() <= MAX_TOKEN).then_some(token)
}

fn token_required() -> Problem {
    Problem::new(Code::TokenRequired, "this listener needs a known token: Authorization: Bearer …")
}

/// 403: the token has none of these scopes.
#[must_use]
pub fn scope_missing(any_of: &[Scope]) -> Problem {
    let words: Vec<&str> = any_of.iter().map(|scope| scope.as_str()).collect();
    Problem::new(Code::ScopeMissing, format!("the token needs the scope {}", words.join(" or ")))
}

/// 403: the token is pinned to other tenants.
#[must_use]
pub fn tenant_not_allowed() -> Problem {
    Problem::new(Code::TenantNotAllowed, "the token is pinned to other tenants")
}

#[cfg(test)]
#[path = "auth/tests.rs"]
mod tests;
