//! Who orders something, and whose things it may be about.

use std::sync::Arc;

use crate::model::Name;

/// What is ordered, and who orders it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order<T> {
    /// As the audit log has it: `operator`, `uid:1000`, `token:shop`.
    pub by: Arc<str>,
    /// Whose destinations it may be about; None: everybody's. It is looked at in the step that changes
    /// them, since a name can have become another tenant's after the request was let in.
    pub tenants: Option<Arc<[Name]>>,
    pub what: T,
}

impl<T> Order<T> {
    /// An order of `by`, who may deal with every tenant.
    #[must_use]
    pub fn of(by: &Arc<str>, what: T) -> Order<T> {
        Order { by: Arc::clone(by), tenants: None, what }
    }

    /// The same who, about something else.
    #[must_use]
    pub fn map<U>(self, what: impl FnOnce(T) -> U) -> Order<U> {
        Order { by: self.by, tenants: self.tenants, what: what(self.what) }
    }

    /// True when what is this tenant's is its business.
    #[must_use]
    pub fn may_change(&self, tenant: &Name) -> bool {
        self.tenants.as_ref().is_none_or(|own| own.contains(tenant))
    }
}

impl<T> From<T> for Order<T> {
    /// Whoever reaches the server.
    fn from(what: T) -> Order<T> {
        Order { by: OPERATOR.into(), tenants: None, what }
    }
}

/// Who orders where nothing more is known of him.
pub const OPERATOR: &str = "operator";
/// Whose word it is where an answer has changed something.
pub const RECEIVER: &str = "receiver";
