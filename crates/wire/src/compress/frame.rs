//! Single frames, and the memory that compressing them takes.

use flate2::{Compress, Decompress, FlushCompress, FlushDecompress, Status};
use zstd::stream::raw::{DParameter, InBuffer, Operation, OutBuffer};

use super::{Algorithm, COMPRESSED_FROM_BYTES, Compression, FRAME_HEADER_BYTES};

/// A zstd frame may ask for a window of at most 2 to the power of this many bytes: no frame has more content.
const ZSTD_WINDOW_BITS_MAX: u32 = 24;
/// Idle decompressors that are kept. Those beyond were for frames that came in pieces, all at the same time.
const SPARE_MAX: usize = 2;

/// A frame is not what its header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("compressed frame: {0}")]
pub struct FrameError(pub(super) &'static str);

/// The buffers of compression: a few hundred kilobytes, which a thread has once for all its connections.
#[derive(Default)]
pub struct Contexts {
    deflate: Option<(u8, Compress)>,
    zstd: Option<(u8, zstd::bulk::Compressor<'static>)>,
    spare_zlib: Vec<Decompress>,
    spare_zstd: Vec<zstd::stream::raw::Decoder<'static>>,
}

impl std::fmt::Debug for Contexts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Contexts")
    }
}

impl Contexts {
    /// Appends a frame with this content, compressed if that makes it shorter.
    pub(super) fn encode(&mut self, compression: Compression, number: u8, content: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        let mut compressed = None;
        if content.len() >= COMPRESSED_FROM_BYTES {
            // No room for more than would be a gain.
            out.resize(start + FRAME_HEADER_BYTES + content.len() - 1, 0);
            let room = &mut out[start + FRAME_HEADER_BYTES..];
            compressed = match compression.algorithm {
                Algorithm::Zlib => self.deflate(compression.level, content, room),
                Algorithm::Zstd => self.zstd(compression.level, content, room),
            };
        }
        let (length, before) = match compressed {
            Some(length) => {
                out.truncate(start + FRAME_HEADER_BYTES + length);
                (length, content.len())
            }
            None => {
                out.truncate(start);
                out.extend_from_slice(&[0; FRAME_HEADER_BYTES]);
                out.extend_from_slice(content);
                (content.len(), 0)
            }
        };
        let [a, b, c, _] = (length as u32).to_le_bytes();
        let [d, e, f, _] = (before as u32).to_le_bytes();
        out[start..start + FRAME_HEADER_BYTES].copy_from_slice(&[a, b, c, number, d, e, f]);
    }

    fn deflate(&mut self, level: u8, content: &[u8], room: &mut [u8]) -> Option<usize> {
        let made = match &mut self.deflate {
            Some((at, made)) if *at == level => made,
            other => &mut other.insert((level, Compress::new(flate2::Compression::new(level.into()), true))).1,
        };
        made.reset();
        let status = made.compress(content, room, FlushCompress::Finish).ok()?;
        (status == Status::StreamEnd).then(|| made.total_out() as usize)
    }

    fn zstd(&mut self, level: u8, content: &[u8], room: &mut [u8]) -> Option<usize> {
        let made = match &mut self.zstd {
            Some((at, made)) if *at == level => made,
            other => &mut other.insert((level, zstd::bulk::Compressor::new(level.into()).ok()?)).1,
        };
        made.compress_to_buffer(content, room).ok()
    }

    fn engine(&mut self, algorithm: Algorithm) -> Result<Engine, FrameError> {
        match algorithm {
            Algorithm::Zlib => Ok(Engine::Zlib(self.spare_zlib.pop().unwrap_or_else(|| Decompress::new(true)))),
            Algorithm::Zstd => {
                if let Some(spare) = self.spare_zstd.pop() {
                    return Ok(Engine::Zstd(spare));
                }
                let no_memory = |_| FrameError("no memory to decompress it");
                let mut made = zstd::stream::raw::Decoder::new().map_err(no_memory)?;
                made.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_BITS_MAX)).map_err(no_memory)?;
                Ok(Engine::Zstd(made))
            }
        }
    }

    fn keep(&mut self, engine: Engine) {
        match engine {
            Engine::Zlib(mut zlib) if self.spare_zlib.len() < SPARE_MAX => {
                zlib.reset(true);
                self.spare_zlib.push(zlib);
            }
            Engine::Zstd(mut zstd) if self.spare_zstd.len() < SPARE_MAX => {
                if zstd.reinit().is_ok() {
                    self.spare_zstd.push(zstd);
                }
            }
            Engine::Zlib(_) | Engine::Zstd(_) => {}
        }
    }
}

/// The decompressor of the frame in work.
enum Engine {
    Zlib(Decompress),
    Zstd(zstd::stream::raw::Decoder<'static>),
}

/// The effect of one step of an engine.
struct Worked {
    taken: usize,
    made: usize,
    over: bool,
}

impl Engine {
    fn run(&mut self, input: &[u8], output: &mut [u8]) -> Result<Worked, FrameError> {
        match self {
            Engine::Zlib(zlib) => {
                let (taken, made) = (zlib.total_in(), zlib.total_out());
                let status = zlib.decompress(input, output, FlushDecompress::None);
                let over = match status {
                    Ok(Status::StreamEnd) => true,
                    Ok(Status::Ok | Status::BufError) => false,
                    Err(_) => return Err(FrameError("its content is no zlib stream")),
                };
                Ok(Worked { taken: (zlib.total_in() - taken) as usize, made: (zlib.total_out() - made) as usize, over })
            }
            Engine::Zstd(zstd) => {
                let mut source = InBuffer::around(input);
                let mut target = OutBuffer::around(output);
                let left = zstd.run(&mut source, &mut target);
                let left = left.map_err(|_| FrameError("its content is no zstd frame, or its window is too large"))?;
                Ok(Worked { taken: source.pos(), made: target.pos(), over: left == 0 })
            }
        }
    }
}

/// Takes frames apart, however they are cut.
pub(super) struct Decoder {
    algorithm: Algorithm,
    header: [u8; FRAME_HEADER_BYTES],
    header_bytes: usize,
    /// The number of the frame's bytes that are still to come.
    left: usize,
    /// The number of bytes of its content that are still to be made.
    content_left: usize,
    engine: Option<Engine>,
    /// The engine has seen the end of its stream: what is left of the frame means nothing.
    over: bool,
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoder").field("left", &self.left).field("content_left", &self.content_left).finish()
    }
}

/// One step of a [`Decoder`].
#[derive(Debug, Default)]
pub(super) struct Step {
    pub taken: usize,
    pub made: usize,
    /// The number of the frame whose header was read.
    pub begun: Option<u8>,
}

impl Decoder {
    pub(super) fn new(algorithm: Algorithm) -> Decoder {
        let header = [0; FRAME_HEADER_BYTES];
        Decoder { algorithm, header, header_bytes: 0, left: 0, content_left: 0, engine: None, over: false }
    }

    pub(super) fn is_between_frames(&self) -> bool {
        self.header_bytes == 0
    }

    /// Reads a header, or a part of the content.
    pub(super) fn decode(
        &mut self,
        contexts: &mut Contexts,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<Step, FrameError> {
        if self.header_bytes < FRAME_HEADER_BYTES {
            let taken = input.len().min(FRAME_HEADER_BYTES - self.header_bytes);
            self.header[self.header_bytes..self.header_bytes + taken].copy_from_slice(&input[..taken]);
            self.header_bytes += taken;
            let begun = (self.header_bytes == FRAME_HEADER_BYTES).then_some(self.header[3]);
            if begun.is_some() {
                self.begin(contexts)?;
            }
            return Ok(Step { taken, made: 0, begun });
        }
        let input = &input[..input.len().min(self.left)];
        let Some(engine) = &mut self.engine else {
            let made = input.len().min(output.len());
            output[..made].copy_from_slice(&input[..made]);
            self.left -= made;
            self.end(contexts);
            return Ok(Step { taken: made, made, begun: None });
        };
        let mut step = Step::default();
        while !self.over && step.taken < input.len() {
            // A byte of room shows a stream that goes on beyond what the header said.
            let mut beyond = [0];
            let room = output.len().min(step.made + self.content_left);
            let target = if self.content_left == 0 { &mut beyond[..] } else { &mut output[step.made..room] };
            if target.is_empty() {
                break;
            }
            let worked = engine.run(&input[step.taken..], target)?;
            if worked.made > self.content_left {
                return Err(FrameError("it holds more than its header says"));
            }
            if worked.taken == 0 && worked.made == 0 && !worked.over {
                return Err(FrameError("its content makes no progress"));
            }
            step.taken += worked.taken;
            step.made += worked.made;
            self.content_left -= worked.made;
            self.over = worked.over;
        }
        // An engine may still give content without any more input.
        while !self.over && step.taken == self.left && step.made < output.len() && self.content_left > 0 {
            let room = output.len().min(step.made + self.content_left);
            let worked = engine.run(&[], &mut output[step.made..room])?;
            if worked.made == 0 && !worked.over {
                break;
            }
            step.made += worked.made;
            self.content_left -= worked.made;
            self.over = worked.over;
        }
        if self.over {
            step.taken = input.len();
        }
        self.left -= step.taken;
        if self.left == 0 && (self.over || step.made < output.len() || self.content_left == 0) {
            if !self.over || self.content_left > 0 {
                return Err(FrameError("it holds less than its header says"));
            }
            self.end(contexts);
        }
        Ok(step)
    }

    fn begin(&mut self, contexts: &mut Contexts) -> Result<(), FrameError> {
        let [a, b, c, _, d, e, f] = self.header;
        self.left = u32::from_le_bytes([a, b, c, 0]) as usize;
        self.content_left = u32::from_le_bytes([d, e, f, 0]) as usize;
        if self.content_left > 0 {
            if self.left == 0 {
                return Err(FrameError("it holds less than its header says"));
            }
            self.engine = Some(contexts.engine(self.algorithm)?);
            self.over = false;
        }
        self.end(contexts);
        Ok(())
    }

    /// Ends the frame if nothing of it is left.
    fn end(&mut self, contexts: &mut Contexts) {
        if self.left == 0 {
            self.header_bytes = 0;
            if let Some(engine) = self.engine.take() {
                contexts.keep(engine);
            }
        }
    }
}
