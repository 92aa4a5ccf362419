# SPDX-License-Identifier: Apache-2.0
"""A client of HTTP/2 that sends exactly the frames it is told to, and reads frames."""

from hpack import Decoder, Encoder
from hyperframe.frame import (
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
NO_ERROR, PROTOCOL_ERROR, FLOW_CONTROL_ERROR = 0x0, 0x1, 0x3
STREAM_CLOSED, FRAME_SIZE_ERROR, REFUSED_STREAM, CANCEL = 0x5, 0x6, 0x7, 0x8
COMPRESSION_ERROR, ENHANCE_YOUR_CALM = 0x9, 0xB


def post_fields(*more, path="/echo/predict"):
    """Return the fields of a POST, and *more*."""
    return [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "test"),
        *more,
    ]


def get_fields(path, *more, method="GET"):
    """Return the fields of a GET, and *more*."""
    return [(":method", method), *post_fields(*more, path=path)[1:]]


def flagged(frame, *flags):
    """Return *frame* with *flags* set."""
    for flag in flags:
        frame.flags.add(flag)
    return frame


class Peer:
    """The client's end of one connection; the socket's timeout bounds every wait."""

    def __init__(self, sock, settings=None):
        self.sock = sock
        self.encoder, self.decoder = Encoder(), Decoder()
        self.unread = b""
        self.sock.sendall(PREFACE)
        self.send(SettingsFrame(0, settings=settings or {}))

    def send(self, *frames):
        """Send *frames* in one write."""
        self.sock.sendall(b"".join(frame.serialize() for frame in frames))

    def headers(self, stream_id, fields, *flags):
        """Return a HEADERS frame, whole unless *flags* say otherwise."""
        frame = HeadersFrame(stream_id, self.encoder.encode(fields))
        return flagged(frame, *(flags or ("END_HEADERS",)))

    def data(self, stream_id, data=b"", *flags):
        """Return a DATA frame."""
        return flagged(DataFrame(stream_id, data), *flags)

    def post(self, stream_id, body, *more, path="/echo/predict"):
        """Send a whole POST in two frames."""
        self.send(
            self.headers(stream_id, post_fields(*more, path=path)),
            self.data(stream_id, body, "END_STREAM"),
        )

    def get(self, stream_id, path, *more, method="GET"):
        """Send a whole GET."""
        fields = get_fields(path, *more, method=method)
        self.send(self.headers(stream_id, fields, "END_HEADERS", "END_STREAM"))

    def make_room(self, count, *stream_ids):
        """Let the server send *count* bytes more on each of the streams; 0 is the connection."""
        self.send(*(WindowUpdateFrame(each, window_increment=count) for each in stream_ids))

    def reset(self, stream_id, code=CANCEL):
        """Drop a stream."""
        self.send(RstStreamFrame(stream_id, error_code=code))

    def _read(self, size):
        while len(self.unread) < size:
            piece = self.sock.recv(65_536)
            if not piece:
                raise EOFError
            self.unread += piece
        data, self.unread = self.unread[:size], self.unread[size:]
        return data

    def next_frame(self):
        """Return the next frame; ``EOFError`` at the end."""
        frame, length = Frame.parse_frame_header(memoryview(self._read(9)))
        frame.parse_body(memoryview(self._read(length)))
        if isinstance(frame, HeadersFrame):
            frame.fields = dict(self.decoder.decode(frame.data))
        return frame

    def wait_for(self, kind, stream_id=None):
        """Return the next frame of *kind*, and of the stream if one is named."""
        while True:
            frame = self.next_frame()
            if isinstance(frame, kind) and stream_id in (None, frame.stream_id):
                return frame

    def answers(self, *stream_ids):
        """Return status, headers and body of each of the streams."""
        heads, bodies, open_ = {}, dict.fromkeys(stream_ids, b""), set(stream_ids)
        while open_:
            frame = self.next_frame()
            is_end = isinstance(frame, (RstStreamFrame, GoAwayFrame))
            assert not (is_end and frame.stream_id in (0, *open_)), frame
            if isinstance(frame, HeadersFrame):
                heads[frame.stream_id] = frame.fields
            elif isinstance(frame, DataFrame) and frame.stream_id in bodies:
                bodies[frame.stream_id] += frame.data
            if "END_STREAM" in frame.flags:
                open_.discard(frame.stream_id)
        return [(int(heads[each].pop(":status")), heads[each], bodies[each]) for each in stream_ids]

    def answer(self, stream_id):
        """Return status, headers and body."""
        return self.answers(stream_id)[0]

    def reset_code(self, stream_id):
        """Wait until the server ends the stream; return why."""
        return self.wait_for(RstStreamFrame, stream_id).error_code

    def goodbye_code(self):
        """Wait until the server ends the connection; return why."""
        code = self.wait_for(GoAwayFrame).error_code
        try:
            while True:
                self.next_frame()
        except (EOFError, ConnectionResetError):
            return code
