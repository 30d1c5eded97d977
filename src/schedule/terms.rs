//! What slots there are and how they are shared, from the start or from a change of the settings on.

use super::Schedule;
use crate::model::DestNo;

/// What slots there are and how they are shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    pub slots: u32,
    /// Slots that interrupted work may hold.
    pub suspect_slots: u32,
    /// Thousandths of each pool's slots that retries leave free.
    pub reserve_permille: u32,
    /// Weights of the classes, by number.
    pub weights: Vec<u32>,
}

impl Schedule {
    /// Other slots, and another way to share them, from now on. What is out stays out: where there are
    /// fewer slots now, nothing is claimed until enough came back.
    pub fn set_terms(&mut self, terms: &Terms) {
        self.pools.set(terms.slots, terms.reserve_permille, &terms.weights);
        self.weights.clone_from(&terms.weights);
        self.suspect_slots = terms.suspect_slots.max(1);
        for (no, gate) in (0..).map(DestNo).zip(&mut self.gates) {
            let pool = self.pools.of(gate.latency, gate.pool);
            if pool != gate.pool {
                gate.move_to(pool);
                self.returned.push(no);
            }
        }
    }

    /// The share of a destination's tenant.
    pub fn set_weight(&mut self, no: DestNo, weight: u32) {
        self.gate_mut(no).settings.weight = weight;
    }
}
