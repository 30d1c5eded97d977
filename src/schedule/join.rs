//! How a destination's gate begins: under the next number, or under that of one that was deleted.

use super::gate::Gate;
use super::pool::Pool;
use super::{GateSettings, Schedule, health};
use crate::model::DestNo;
use crate::outcome::GateMemory;
use crate::time::Now;

impl Schedule {
    /// Adds the gate of the next number, with what it remembers.
    pub fn add(&mut self, settings: GateSettings, memory: GateMemory, now: Now) -> DestNo {
        let no = DestNo(u32::try_from(self.gates.len()).expect("destinations are bounded"));
        let gate = self.new_gate(settings, &memory, now);
        self.gates.push(gate);
        self.activate(no, now);
        no
    }

    /// The same under the number of one that was deleted, which has nothing waiting or in flight.
    pub fn add_again(&mut self, no: DestNo, settings: GateSettings, memory: GateMemory, now: Now) -> DestNo {
        let mut gate = self.new_gate(settings, &memory, now);
        let before = self.gate_mut(no);
        // What still stands in a ring or is told of before is not about this one.
        (gate.moves, gate.epoch) = (before.moves + 1, before.epoch + 1);
        let timer = std::mem::replace(before, gate).timer;
        timer.map(|at| self.timers.remove(&(at, no)));
        self.changed.insert(no);
        self.activate(no, now);
        no
    }

    fn new_gate(&self, settings: GateSettings, memory: &GateMemory, now: Now) -> Gate {
        let mut gate = Gate::new(settings);
        health::recall(&mut gate, memory, now);
        gate.pool = self.pools.of(gate.latency, Pool::Fast);
        gate.closed = gate.is_closed(now.mono);
        gate
    }
}
