//! One connection between two machines: messages on a stream of `wire`, bytes in and bytes out.
//!
//! The connector opens the one stream; messages go both ways on it, in order. The parameters of
//! HELLO are the layout's version, the protocol and the host's number. The owner of the socket must
//! verify that number by the certificate.

use crate::format::{FormatError, MESSAGE_BYTES_MAX, MESSAGE_HEADER_BYTES, Message};
use crate::messages::HostId;
use crate::protocol::Protocol;
use bytes::{Buf, Bytes, BytesMut};
use std::collections::VecDeque;
use thermocline_units::Nanos;
use thermocline_wire::{Config, ConfigError, Event, Role, Session, StreamId, WireError};

/// Version of the layout.
const VERSION: u8 = 2;
/// Bytes of messages that may wait to be sent before the connection is given up. Owners of machines
/// keep far below it: see [`Link::queued`].
pub const QUEUED_BYTES_MAX: usize = 64 << 20;
/// Received bytes that may wait to be taken as messages before the other end gets no more credit;
/// room for the longest message, so that it can come.
const INPUT_BYTES_MAX: usize = 2 << 20;
const _: () = assert!(INPUT_BYTES_MAX > MESSAGE_BYTES_MAX + MESSAGE_HEADER_BYTES);

/// Reason why a connection ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The other end broke a rule of the connection, or is silent.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// A message breaks the layout.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The other end has another version of the layout or another protocol.
    #[error(
        "the other end speaks {theirs}, this end {ours}: both need the same version of thermocline and the same protocol"
    )]
    Protocol {
        /// This end's version and protocol.
        ours: String,
        /// The other end's version and protocol.
        theirs: String,
    },
    /// The message is too long.
    #[error("a message of {bytes} bytes; at most {most} are allowed")]
    TooLong {
        /// Its length in bytes.
        bytes: usize,
        /// Largest length in bytes.
        most: usize,
    },
    /// The stream ended, was reset, or is not the only one.
    #[error("the other end {what}; a connection has one stream for as long as it lasts")]
    Stream {
        /// Description of the violation.
        what: &'static str,
    },
    /// The other end does not receive its messages.
    #[error("the other end takes nothing: {bytes} bytes wait for it")]
    Unread {
        /// Bytes that wait.
        bytes: usize,
    },
}

/// One end of a connection.
#[derive(Debug)]
pub struct Link {
    session: Session,
    role: Role,
    ours: [u8; 4],
    stream: Option<StreamId>,
    /// The other end's number, once it has said hello.
    peer: Option<HostId>,
    input: BytesMut,
    /// Bytes of `input` for which the other end got no credit yet.
    owed: usize,
    output: VecDeque<Bytes>,
    queued: usize,
}

impl Link {
    /// One end of a connection that was just made; `host` is this end's number.
    ///
    /// # Errors
    /// A setting does not fit.
    pub fn new(
        mut config: Config,
        protocol: Protocol,
        host: HostId,
        now: Nanos,
    ) -> Result<Link, ConfigError> {
        let [low, high] = host.0.to_le_bytes();
        let ours = [VERSION, protocol.bits(), low, high];
        config.parameters = Bytes::copy_from_slice(&ours);
        config.streams_max = 1;
        let role = config.role;
        Ok(Link {
            session: Session::new(config, now)?,
            role,
            ours,
            stream: None,
            peer: None,
            input: BytesMut::new(),
            owed: 0,
            output: VecDeque::new(),
            queued: 0,
        })
    }

    /// The other end's number, once messages can be sent.
    pub fn peer(&self) -> Option<HostId> {
        self.peer.filter(|_| self.stream.is_some())
    }

    /// Takes received bytes, in pieces of any size.
    ///
    /// # Errors
    /// The other end broke a rule: the connection must be closed.
    pub fn receive(&mut self, now: Nanos, bytes: &[u8]) -> Result<(), LinkError> {
        self.session.receive(now, bytes)?;
        while let Some(event) = self.session.next_event() {
            self.hear(event)?;
        }
        Ok(())
    }

    fn hear(&mut self, event: Event) -> Result<(), LinkError> {
        let stream = |what| Err(LinkError::Stream { what });
        match event {
            Event::Hello { parameters, .. } => {
                let theirs: Option<[u8; 4]> = parameters.as_ref().try_into().ok();
                let Some(theirs) = theirs.filter(|theirs| theirs[..2] == self.ours[..2]) else {
                    let told = |bytes: &[u8]| match bytes {
                        [version, bits, ..] => format!("version {version}, protocol {bits:#04x}"),
                        _ => "something else".to_string(),
                    };
                    let (ours, theirs) = (told(&self.ours), told(&parameters));
                    return Err(LinkError::Protocol { ours, theirs });
                };
                self.peer = Some(HostId(u16::from_le_bytes([theirs[2], theirs[3]])));
                if self.role == Role::Connector {
                    let Ok(opened) = self.session.open(&[]) else {
                        return stream("closes the connection before it has begun");
                    };
                    self.stream = Some(opened);
                }
            }
            Event::Opened { stream: number, .. } => {
                if self.role == Role::Connector || self.stream.is_some() {
                    return stream("opened a second stream");
                }
                self.stream = Some(number);
            }
            Event::Data { stream: number, .. } if self.stream != Some(number) => {
                return stream("sent on another stream");
            }
            Event::Data { bytes, .. } => {
                self.input.extend_from_slice(&bytes);
                self.owed += bytes.len();
                self.give_credit();
            }
            Event::Ended { .. } => return stream("ended its stream"),
            Event::Reset { .. } => return stream("reset its stream"),
            Event::Closing { .. } => return stream("closes the connection"),
            Event::Writable { .. } => {}
        }
        Ok(())
    }

    /// Lets the other end send more, unless too much waits to be taken.
    fn give_credit(&mut self) {
        if self.input.len() <= INPUT_BYTES_MAX
            && self.owed > 0
            && let Some(stream) = self.stream
        {
            self.session.consumed(stream, std::mem::take(&mut self.owed));
        }
    }

    /// The next whole message.
    ///
    /// # Errors
    /// It breaks the layout: the connection must be closed.
    pub fn next_message<M: Message>(&mut self) -> Result<Option<M>, LinkError> {
        if self.input.len() < MESSAGE_HEADER_BYTES {
            return Ok(None);
        }
        let mut header = &self.input[..];
        let (length, kind) = (header.get_u32_le() as usize, header.get_u8());
        if length > MESSAGE_BYTES_MAX {
            return Err(LinkError::TooLong { bytes: length, most: MESSAGE_BYTES_MAX });
        }
        if self.input.len() < MESSAGE_HEADER_BYTES + length {
            return Ok(None);
        }
        self.input.advance(MESSAGE_HEADER_BYTES);
        let body = self.input.split_to(length).freeze();
        self.give_credit();
        Ok(Some(M::read(kind, &body)?))
    }

    /// Bytes of messages that wait to be sent. An owner that has more to say than
    /// [`QUEUED_BYTES_MAX`] waits until it is less.
    pub fn queued(&self) -> usize {
        self.queued
    }

    /// Queues a message.
    ///
    /// # Errors
    /// More than [`QUEUED_BYTES_MAX`] bytes are queued.
    pub fn send<M: Message>(&mut self, message: &M) -> Result<(), LinkError> {
        let mut bytes = Vec::with_capacity(message.length());
        message.write(&mut bytes);
        self.queued += bytes.len();
        self.output.push_back(bytes.into());
        if self.queued > QUEUED_BYTES_MAX {
            return Err(LinkError::Unread { bytes: self.queued });
        }
        Ok(())
    }

    /// Appends about `max_bytes` bytes to send to `out`, in segments, and returns their number.
    pub fn transmit(&mut self, now: Nanos, out: &mut VecDeque<Bytes>, max_bytes: usize) -> usize {
        if let Some(stream) = self.stream {
            while let Some(first) = self.output.front_mut() {
                let sent = self.session.send(stream, first).unwrap_or(0);
                self.queued -= sent;
                if !first.is_empty() {
                    break;
                }
                self.output.pop_front();
            }
        }
        self.session.transmit(now, out, max_bytes)
    }

    /// True if [`Link::transmit`] may have something.
    pub fn wants_transmit(&self) -> bool {
        self.session.wants_transmit() || (self.stream.is_some() && !self.output.is_empty())
    }

    /// Time at which [`Link::tick`] has something to do.
    pub fn next_deadline(&self) -> Option<Nanos> {
        self.session.next_deadline()
    }

    /// Does the work that is due: asks for a sign of life.
    ///
    /// # Errors
    /// The other end has been silent for too long.
    pub fn tick(&mut self, now: Nanos) -> Result<(), LinkError> {
        Ok(self.session.tick(now)?)
    }
}
