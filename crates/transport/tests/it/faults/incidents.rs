//! Incidents at the ends and on the path.

use pathmark_transport::connection::ConnectionError;
use pathmark_transport::endpoint::Endpoint;

use super::applications::{CLIENT, SERVER};
use super::path::{CLOCK_JUMP, END_GONE};
use super::plan::Incident;
use super::world::World;

impl World {
    /// Lets the incidents happen whose time has come.
    pub(super) fn happen(&mut self) {
        let client = self.ends[CLIENT].connection.as_ref();
        let confirmed = client.is_some_and(|(_, connection)| connection.handshake().is_confirmed());
        if confirmed && self.begun.is_none() {
            self.begun = Some(self.now);
        }
        let Some(begun) = self.begun else {
            return;
        };
        while let Some((after, incident)) = self.incidents.first().copied()
            && begun + after <= self.now
        {
            self.incidents.remove(0);
            self.trace(format_args!("{incident:?}"));
            match incident {
                Incident::Rebinding => {
                    let port = 1000 + self.random.below(60_000) as u16;
                    let client = self.ends[CLIENT].connection.as_ref();
                    let local = client.and_then(|(_, connection)| connection.local_address());
                    self.addresses.rebind(local, port);
                }
                Incident::Migration(how) => self.moving.push_back(how),
                Incident::Outage(time) => self.path.darken(self.now + time),
                Incident::RouterKilled(time, marks) => {
                    self.path.kill_router(self.now + time, marks);
                }
                Incident::Sleep(side, time) => {
                    self.path.struck[CLOCK_JUMP] += 1;
                    self.ends[side].asleep_until = Some(self.now + time);
                }
                Incident::Death(side) => {
                    self.lose_an_end();
                    self.ends[side].dead = true;
                }
                Incident::Restart => {
                    self.lose_an_end();
                    let end = &mut self.ends[SERVER];
                    end.endpoint = Endpoint::new(self.config.clone(), self.random.fork());
                    end.connection = None;
                    end.error = Some(ConnectionError::Reset);
                }
            }
        }
    }

    fn lose_an_end(&mut self) {
        let errors = self.errors();
        self.gone.get_or_insert(errors);
        self.path.struck[END_GONE] += 1;
    }
}
