"""What the component exports: `init` for the builder, `handle` for calls."""

import wit_world
from componentize_py_types import Err
from wit_world import exports

from sless_wasm import load, preload, serve, state

preload.all_modules()
state.base_is_ready()


class WitWorld(wit_world.WitWorld):
    """The builder's side."""

    def init(self, source):
        try:
            impure, printed = load.function(source)
        except load.LoadError as error:
            raise Err(wit_world.Failure(error.error, error.remedy, error.file, error.line, error.stack,
                                        error.certain)) from None
        return wit_world.Report(impure, printed)


class IncomingHandler(exports.IncomingHandler):
    """The host's side."""

    def handle(self, request, response_out):
        serve.handle(request, response_out)
