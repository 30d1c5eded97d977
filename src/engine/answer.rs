//! Answers to queries: from RAM, at the top of a step, with nothing changed but what is kept of
//! rankings.

use super::command::{Answer, Query};
use super::{Core, MAX_BODIES_OUT};
use crate::model::{DestNo, Lane};
use crate::schedule::Standing;
use crate::store::Claims;
use crate::time::Now;

impl Core {
    /// The answers in the order of the queries, which the inbox bounds.
    pub(super) fn answers(&mut self, queries: &[Query], now: Now) -> Vec<Answer> {
        queries.iter().map(|query| self.answer(query, now)).collect()
    }

    fn answer(&mut self, query: &Query, now: Now) -> Answer {
        match query {
            Query::Gates(numbers) => {
                Answer::Gates(numbers.iter().map(|no| self.schedule.view(*no, now)).collect())
            }
            Query::Standing(no, lane) => Answer::Standing {
                gate: self.schedule.view(*no, now).map(Box::new),
                standing: self.standing(*no, *lane),
                claims: self.claims,
            },
            Query::Destinations(order, span, seen) => {
                Answer::Destinations(self.ranked(*order, *span, seen, now))
            }
            Query::Tenants(order, span, seen) => {
                Answer::Tenants(self.ranked_tenants(*order, *span, seen, now))
            }
        }
    }

    /// What of the server keeps a lane back: memory for bodies is the engine's own bound.
    fn standing(&self, no: DestNo, lane: Lane) -> Standing {
        if self.claims != Claims::Running {
            return Standing::Stopped;
        }
        let standing = self.schedule.standing(no, lane);
        let full = self.bodies_out >= MAX_BODIES_OUT;
        if full && standing != Standing::Stopped { Standing::Bodies } else { standing }
    }
}
