//! Frames of individual streams other than STREAM: a queue of the streams for which any is due.

use std::collections::VecDeque;

use pathmark_cc::{Duration, Instant};

use super::account::mostly_gone;
use super::sent::{Sent, room_for};
use super::{Record, Records, SendPart, SentFrames, StreamId, Turn};
use crate::wire::{
    Frame, WriteError, Writer,
    frame::{MaxStreamData, ResetStream, StopSending, StreamDataBlocked},
};

/// Streams with such frames due, in the order in which they are written.
#[derive(Debug, Default)]
pub(super) struct Control(VecDeque<StreamId>);

impl Control {
    /// Queues a stream whose `due` was set, unless it is queued already.
    pub(super) fn push(&mut self, id: StreamId, record: &mut Record) {
        if record.due.any() && !record.in_control && record.turn != Turn::Held {
            record.in_control = true;
            self.0.push_back(id);
        }
    }

    /// Returns the first stream with a frame due, after removing the streams before it.
    pub(super) fn first(&mut self, records: &mut Records) -> Option<StreamId> {
        while let Some(&id) = self.0.front() {
            if let Some(record) = records.get_mut(&id) {
                if record.drop_void() {
                    return Some(id);
                }
                record.in_control = false;
            }
            self.0.pop_front();
        }
        None
    }

    /// Writes the frames that are due and fit.
    pub(super) fn write(
        &mut self,
        now: Instant,
        rtt: Option<Duration>,
        records: &mut Records,
        w: &mut Writer<'_>,
        sent: &mut SentFrames,
    ) -> Result<(), WriteError> {
        while let Some(id) = self.first(records) {
            if let Some(record) = records.get_mut(&id) {
                write_due(now, rtt, (id, record), w, sent)?;
            }
        }
        Ok(())
    }

    /// Schedules the frames of a lost packet again if they are still meaningful.
    pub(super) fn on_lost(&mut self, frame: Sent, records: &mut Records) {
        let id = match frame {
            Sent::Data { .. } => return,
            Sent::Reset(id)
            | Sent::Stop(id)
            | Sent::MaxStreamData(id)
            | Sent::StreamDataBlocked(id) => id,
        };
        let Some(record) = records.get_mut(&id) else {
            return;
        };
        match frame {
            Sent::Data { .. } => {}
            Sent::Reset(_) => record.due.reset = true,
            Sent::Stop(_) => record.due.stop = true,
            Sent::MaxStreamData(_) => record.due.max_data = true,
            Sent::StreamDataBlocked(_) => record.due.data_blocked = true,
        }
        record.drop_void();
        self.push(id, record);
    }

    /// Removes streams that no longer exist once they make up most of the queue.
    pub(super) fn forget_gone(&mut self, live: usize, is_live: impl Fn(&StreamId) -> bool) {
        if mostly_gone(self.0.len(), live) {
            self.0.retain(is_live);
        }
    }

    /// Empties the queue; the caller must update the records.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

fn write_due(
    now: Instant,
    rtt: Option<Duration>,
    (id, record): (StreamId, &mut Record),
    w: &mut Writer<'_>,
    sent: &mut SentFrames,
) -> Result<(), WriteError> {
    let due = record.due;
    if due.reset
        && let Some((error_code, final_size)) = record.send.as_ref().and_then(SendPart::reset_frame)
    {
        Frame::ResetStream(ResetStream {
            id,
            error_code,
            final_size,
        })
        .encode(w)?;
        record.due.reset = false;
        sent.push(Sent::Reset(id));
    }
    if let Some(recv) = record.recv.as_mut() {
        if due.stop
            && let Some(error_code) = recv.stop_frame()
        {
            Frame::StopSending(StopSending { id, error_code }).encode(w)?;
            record.due.stop = false;
            sent.push(Sent::Stop(id));
        }
        if due.max_data {
            room_for(w, 17)?;
            let max = recv.window_mut().announce(now, rtt);
            Frame::MaxStreamData(MaxStreamData { id, max }).encode(w)?;
            record.due.max_data = false;
            sent.push(Sent::MaxStreamData(id));
        }
    }
    if due.data_blocked
        && let Some(limit) = record.send.as_ref().and_then(SendPart::blocked_at)
    {
        Frame::StreamDataBlocked(StreamDataBlocked { id, limit }).encode(w)?;
        record.due.data_blocked = false;
        sent.push(Sent::StreamDataBlocked(id));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::id;
    use crate::streams::sent::Sent::{Reset, Stop};
    use crate::streams::{ReceiveWindow, RecvPart};
    use crate::wire::Frames;

    const NOW: Instant = Instant::ZERO;

    /// A stream whose sending part is reset and whose receiving part is stopped.
    fn given_up() -> Record {
        let mut send = SendPart::new(0);
        let mut recv = RecvPart::new(ReceiveWindow::new(1000, 1000));
        send.reset(7).unwrap();
        recv.stop(8, &mut ReceiveWindow::new(1000, 1000)).unwrap();
        let mut record = Record::new(Some(send), Some(recv));
        record.due.reset = true;
        record.due.stop = true;
        record
    }

    fn queue(records: &mut Records) -> Control {
        let mut control = Control::default();
        for n in [4, 0] {
            let mut record = given_up();
            control.push(id(n), &mut record);
            control.push(id(n), &mut record);
            records.insert(id(n), Box::new(record));
        }
        assert_eq!(control.len(), 2, "each once");
        control
    }

    /// Writes frames into `room` bytes and returns their records.
    fn write(control: &mut Control, records: &mut Records, room: usize) -> Vec<Sent> {
        let mut buffer = [0; 100];
        let mut w = Writer::new(&mut buffer[..room]);
        let mut sent = SentFrames::default();
        let fits = control.write(NOW, None, records, &mut w, &mut sent);
        assert_eq!(fits.is_ok(), control.first(records).is_none());
        assert_eq!(Frames::new(w.written()).count(), sent.iter().count());
        sent.iter().collect()
    }

    #[test]
    fn frames_that_do_not_fit_go_into_the_next_packet() {
        let mut records = Records::default();
        let mut control = queue(&mut records);
        let first = write(&mut control, &mut records, 5);
        // Four bytes, and three of STOP_SENDING.
        assert_eq!(first, [Reset(id(4))]);
        let rest = write(&mut control, &mut records, 100);
        assert_eq!(rest, [Stop(id(4)), Reset(id(0)), Stop(id(0))]);
        assert_eq!(control.len(), 0);
        assert_eq!(write(&mut control, &mut records, 100), vec![]);
    }

    #[test]
    fn lost_frames_go_again_where_they_mean_something() {
        let mut records = Records::default();
        let mut control = queue(&mut records);
        let sent = write(&mut control, &mut records, 100);
        records.get_mut(&id(0)).unwrap().send = None;
        for frame in sent {
            control.on_lost(frame, &mut records);
        }
        control.on_lost(Sent::Stop(id(8)), &mut records);
        let again = write(&mut control, &mut records, 100);
        assert_eq!(again, [Reset(id(4)), Stop(id(4)), Stop(id(0))]);
    }

    #[test]
    fn streams_that_are_gone_or_held_have_nothing_to_send() {
        let mut records = Records::default();
        let mut control = queue(&mut records);
        records.remove(&id(4));
        assert_eq!(control.first(&mut records), Some(id(0)));
        for n in 1..100 {
            control.push(id(4 * n), &mut given_up());
        }
        control.forget_gone(1, |gone| *gone == id(0));
        assert_eq!(control.len(), 1);
        control.clear();
        let mut held = given_up();
        held.turn = Turn::Held;
        control.push(id(0), &mut held);
        assert_eq!(control.len(), 0);
    }
}
