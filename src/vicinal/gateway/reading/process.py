"""The reader: `python -m vicinal.gateway.reading.process`, with jobs at its standard input, until that ends.

It is nice, because whoever sends 16 MiB can wait, and when memory runs out it is the first to go, because what a
hostile body costs is spent here.
"""

import contextlib
import os
import signal
import sys
import time
import traceback
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import msgspec
import numpy as np

from vicinal.cluster.output_lengths import OutputLengths
from vicinal.domain.ids import RequestId
from vicinal.gateway.bodies import Readable
from vicinal.gateway.codes import ErrorCode
from vicinal.gateway.counters import GatewayCounters
from vicinal.gateway.errors import ApiError
from vicinal.gateway.matching import Matching
from vicinal.gateway.parse import RequestParser
from vicinal.gateway.prompt_reader import ServedModel
from vicinal.gateway.reading.messages import LENGTH_BYTES, Job, Read, Setup, Unread, packed
from vicinal.tokenizer.tokenizer import Tokenizer

_NICENESS = 10
_UNNAMED = RequestId("")

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_jobs = msgspec.msgpack.Decoder(Job)
_setups = msgspec.msgpack.Decoder(Setup)


class BodyReader:
    """Reads bodies as the gateway's own parser does."""

    def __init__(self, setup: Setup) -> None:
        self._models = [
            ServedModel(
                model.id,
                model.block_tokens,
                model.model_tokens_max,
                None if model.tokenizer_folder is None else Tokenizer.load(model.tokenizer_folder),
            )
            for model in setup.models
        ]
        self._trust = setup.trust

    def read(self, job: Job, body: Readable) -> Read | Unread:
        """Never raises for what is in a body. What it took is that of all threads: a tokenizer has some for long texts,
        and this process has nothing else to do."""
        begun_s = time.process_time()
        counters, matching = GatewayCounters(), Matching()
        for model, kind in job.by_text:
            matching.use_text(model, kind, "")
        parser = RequestParser(self._models, OutputLengths(), counters, matching=matching, trust=self._trust)
        read = parser.chat if job.chat else parser.completion
        try:
            parsed = read(_UNNAMED, body, job.caller)
            where = places(body)
            request = replace(parsed.request, gateway_cpu_s=time.process_time() - begun_s)
            return Read(replace(parsed, request=request), where, counters.estimated_prompts)
        except ApiError as error:
            return Unread(error.reason, error.message, error.param)
        except Exception as error:  # a defect, or no memory: whoever sent this gets an answer, and the next one his
            # neither its text nor its locals: what a client sent is not for logs
            print(f"reading a body failed: {type(error).__name__}", file=sys.stderr)
            traceback.print_tb(error.__traceback__)
            return Unread(ErrorCode.INTERNAL_ERROR, "internal error of the gateway")


def places(body: Readable) -> dict[str, tuple[int, int]]:
    """Where the values of the top-level fields of a JSON object are. Of fields with one name, the last counts."""
    origin = _address(body)
    found: dict[str, tuple[int, int]] = {}
    for name, value in _fields.decode(body).items():
        begin = _address(value) - origin
        found[name] = (begin, begin + len(memoryview(value)))
    return found


def _address(buffer: Readable | msgspec.Raw) -> int:
    """Where a buffer begins in memory. A `Raw` is a view of what it was decoded from."""
    address: int = np.frombuffer(buffer, np.uint8).__array_interface__["data"][0]
    return address


def _take(source: BinaryIO, size_bytes: int) -> bytearray:
    """Exactly so many bytes. Raises EOFError when the gateway has gone."""
    taken = bytearray(size_bytes)
    view, at = memoryview(taken), 0
    while at < size_bytes:
        got = source.readinto(view[at:])  # type: ignore[attr-defined]  # raw files have it, BinaryIO does not say so
        if not got:
            raise EOFError
        at += got
    return taken


def _message(source: BinaryIO) -> bytearray:
    return _take(source, int.from_bytes(_take(source, LENGTH_BYTES), "little"))


def _serve(source: BinaryIO, answers: BinaryIO) -> None:
    reader = BodyReader(_setups.decode(_message(source)))
    while True:
        job = _jobs.decode(_message(source))
        body = _take(source, job.body_bytes)
        answer = packed(reader.read(job, body))
        del body
        answers.write(answer)
        answers.flush()


def main() -> None:
    """Ends with the gateway, not with the signals that ask it to finish what is under way."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.nice(_NICENESS)
    with contextlib.suppress(OSError):  # not Linux, or not allowed: then the system chooses by size
        Path("/proc/self/oom_score_adj").write_text("500")
    source = os.fdopen(os.dup(0), "rb", buffering=0)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints must not print into the answers
    with contextlib.suppress(EOFError, BrokenPipeError):
        _serve(source, answers)


if __name__ == "__main__":
    main()
