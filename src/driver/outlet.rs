//! The sender that is used now. Another takes its place when the settings change; what is on its way
//! by the one before ends there.

use std::sync::{Arc, PoisonError, RwLock};

use crate::sender::Sender;

/// Where requests go out.
pub(super) struct Outlet(RwLock<Arc<Sender>>);

impl Outlet {
    pub(super) fn new(sender: Sender) -> Outlet {
        Outlet(RwLock::new(Arc::new(sender)))
    }

    /// The sender for the next request.
    pub(super) fn now(&self) -> Arc<Sender> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Requests go out by this one from now on.
    pub(super) fn replace(&self, sender: Sender) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(sender);
    }
}
