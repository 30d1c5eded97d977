//! Operators' orders on their way into the engine. During a hold they wait for a while, as producers
//! do, and are then refused; nothing of a refused one is done.

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::handle::{HOLD_PATIENCE, Handle, Unavailable, heard, refused};
use super::inbox::Refusal;
use crate::engine::command::{ClaimsOrder, ClaimsSet, Command, CommandError, Done, FenceRequired, Order};

impl Handle {
    /// Carries out an operator's command; answered after its commit.
    ///
    /// # Errors
    /// [`Unavailable`] when nothing was done.
    pub async fn command(
        &self,
        order: impl Into<Order<Command>>,
    ) -> Result<Result<Done, CommandError>, Unavailable> {
        let (reply, answer) = oneshot::channel();
        match self.inbox.command(Box::new((order.into(), reply))) {
            Ok(()) => {}
            Err(Refusal::Held(order)) => {
                self.hold_over().await;
                if let Err(refusal) = self.inbox.command(order) {
                    return Err(refused(refusal).await);
                }
            }
            Err(refusal) => return Err(refused(refusal).await),
        }
        heard(answer).await
    }

    /// Goes on with work that has begun: in a hold it waits as long as that lasts.
    ///
    /// # Errors
    /// [`Unavailable`] when nothing was done.
    pub async fn carry_on(
        &self,
        order: impl Into<Order<Command>>,
    ) -> Result<Result<Done, CommandError>, Unavailable> {
        let (reply, answer) = oneshot::channel();
        match self.inbox.carry_on(Box::new((order.into(), reply))) {
            Ok(()) => heard(answer).await,
            Err(refusal) => Err(refused(refusal).await),
        }
    }

    /// Has something noted. Answered after its commit, or at once during a hold: it is then noted
    /// after that.
    ///
    /// # Errors
    /// [`Unavailable`] when it is not noted.
    pub async fn note(&self, order: impl Into<Order<Command>>) -> Result<(), Unavailable> {
        let order = order.into();
        tokio::select! {
            biased;
            // The order is in the queue then, and stays there though its answer is not waited for.
            noted = self.carry_on(order) => noted.map(drop),
            () = self.inbox.hold.shut() => Ok(()),
        }
    }

    /// Has something done for which nobody waits any more. Lost only if the server is stopping, or has
    /// too many orders.
    pub fn leave(&self, order: impl Into<Order<Command>>) {
        if self.inbox.carry_on(Box::new((order.into(), oneshot::channel().0))).is_err() {
            tracing::warn!(
                "an entry of the audit log is lost: the server is stopping, or has too many orders"
            );
        }
    }

    /// Lets all deliveries be claimed, or none, or takes nothing new either; answered after its
    /// commit.
    ///
    /// # Errors
    /// [`Unavailable`] when nothing was done.
    pub async fn order_claims(
        &self,
        order: impl Into<Order<ClaimsOrder>>,
    ) -> Result<Result<ClaimsSet, FenceRequired>, Unavailable> {
        let (reply, answer) = oneshot::channel();
        match self.inbox.order_claims(order.into(), reply) {
            Ok(()) => {}
            Err(Refusal::Held((order, reply))) => {
                self.hold_over().await;
                if let Err(refusal) = self.inbox.order_claims(order, reply) {
                    return Err(refused(refusal).await);
                }
            }
            Err(refusal) => return Err(refused(refusal).await),
        }
        heard(answer).await
    }

    /// Waits for the end of the hold, for a while.
    pub(super) async fn hold_over(&self) {
        drop(timeout(HOLD_PATIENCE.duration(), self.inbox.hold.open()).await);
    }

    /// Waits for the end of the hold, however long it has.
    pub async fn open(&self) {
        self.inbox.hold.open().await;
    }
}
