//! Stream sockets on this computer: CPU time of each side for a message, by size.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::cpus;
use crate::row::{Spread, Unit};
use crate::session::Session;
use crate::wake::cpu_time;

/// Bytes of a message.
const SIZES: [usize; 5] = [64, 1024, 4096, 16_384, 65_536];
/// Bytes of a message that is a segment of its own.
const SEGMENTS: [usize; 3] = [64, 1024, 16_384];
/// Messages of a sample, and bytes of one at most.
const MESSAGES: usize = 2000;
const BYTES_MAX: usize = 4 << 20;
/// A stream that does not go on for this long is broken.
const PATIENCE: Duration = Duration::from_secs(5);

/// Both ends of a stream.
struct Stream {
    from: Box<dyn Write + Send>,
    to: Box<dyn Read + Send>,
}

pub(crate) fn measure(session: &mut Session<'_>) {
    for size in SIZES {
        kind(session, "tcp", size, || tcp(false));
    }
    // Each call sends its segment at once, so the difference to `tcp` is what a segment costs.
    for size in SEGMENTS {
        kind(session, "tcp-nodelay", size, || tcp(true));
    }
    for size in SIZES {
        kind(session, "unix", size, unix);
    }
}

/// CPUs of the sender and of the receiver.
fn ends(session: &Session<'_>) -> [usize; 2] {
    [session.cpus.first(), session.cpus.last()].map(|cpu| cpu.copied().unwrap_or(0))
}

/// CPU time for a message of the slower side of a TCP stream: with a CPU for each side, that is the
/// time between two messages.
pub(crate) fn slower_side(session: &Session<'_>, size: usize) -> Result<Spread, String> {
    let cpus = ends(session);
    if cpus[0] == cpus[1] {
        return Err("this process may run on one CPU only".to_owned());
    }
    let [send, receive, _] = stream_of(session, size, tcp(false)?, cpus)?;
    Ok(if send.median > receive.median { send } else { receive })
}

fn tcp(at_once: bool) -> Result<Stream, String> {
    let failed = |error: std::io::Error| format!("TCP on the loopback device: {error}");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
    let from = TcpStream::connect(listener.local_addr().map_err(failed)?).map_err(failed)?;
    let (to, _) = listener.accept().map_err(failed)?;
    from.set_nodelay(at_once).map_err(failed)?;
    from.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
    to.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    Ok(Stream { from: Box::new(from), to: Box::new(to) })
}

fn unix() -> Result<Stream, String> {
    let failed = |error: std::io::Error| format!("Unix sockets: {error}");
    let (from, to) = UnixStream::pair().map_err(failed)?;
    from.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
    to.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    Ok(Stream { from: Box::new(from), to: Box::new(to) })
}

fn kind(
    session: &mut Session<'_>,
    name: &str,
    size: usize,
    open: impl FnOnce() -> Result<Stream, String>,
) {
    let cpus = ends(session);
    let on = match cpus[0] == cpus[1] {
        true => "both ends on one CPU".to_owned(),
        false => format!("from CPU {} to CPU {}", cpus[0], cpus[1]),
    };
    match open().and_then(|stream| stream_of(session, size, stream, cpus)) {
        Ok([send, receive, message]) => {
            for (row, what, spread) in [
                ("send", "CPU time of the sender for a message", send),
                ("receive", "CPU time of the receiver for a message", receive),
                ("message", "elapsed time for a message", message),
            ] {
                let how = format!("{what} of {size} bytes, {on}");
                session.put(format!("{name}.{size}.{row}"), Unit::Ns, how, Ok(spread));
            }
        }
        Err(why) => session.leave_out(format!("{name}.{size}"), why),
    }
}

fn stream_of(
    session: &Session<'_>,
    size: usize,
    stream: Stream,
    [near, far]: [usize; 2],
) -> Result<[Spread; 3], String> {
    let messages = MESSAGES.min(BYTES_MAX / size);
    let Stream { mut from, mut to } = stream;
    cpus::pin(near)?;
    thread::scope(|scope| {
        let (done, finished) = mpsc::channel::<Result<Duration, String>>();
        let receiver = scope.spawn(move || {
            let mut buffer = vec![0; size];
            let mut pinned = cpus::pin(far);
            loop {
                let begun = cpu_time();
                let mut left = messages * size;
                while left > 0 {
                    match to.read(&mut buffer) {
                        // The sender has closed its end: no further sample.
                        Ok(0) => return,
                        Ok(read) => left -= read.min(left),
                        Err(error) => {
                            let _ = done.send(Err(format!("receiving: {error}")));
                            return;
                        }
                    }
                }
                let took = std::mem::replace(&mut pinned, Ok(()));
                if done.send(took.map(|()| cpu_time() - begun)).is_err() {
                    return;
                }
            }
        });
        let message = vec![1; size];
        let result = session.rounds(|| {
            let (begun, cpu) = (Instant::now(), cpu_time());
            for _ in 0..messages {
                from.write_all(&message).map_err(|error| format!("sending: {error}"))?;
            }
            let sending = cpu_time() - cpu;
            let receiving = finished
                .recv_timeout(PATIENCE)
                .map_err(|_| "the receiver did not come to an end".to_owned())??;
            let all = [sending, receiving, begun.elapsed()];
            Ok(Some(all.map(|took| took.as_nanos() as f64 / messages as f64)))
        });
        drop(from);
        drop(finished);
        receiver.join().map_err(|_| "the receiver panicked".to_owned())?;
        result
    })
}
