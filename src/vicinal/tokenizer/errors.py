"""What can go wrong between a chat and its token ids."""


class TokenizerError(ValueError):
    """The model's tokenizer files cannot be used. The operator's to mend."""


class ChatError(ValueError):
    """This chat cannot be rendered: the client's fault, worth a 400. `param` names the field of the request."""

    def __init__(self, text: str, param: str = "messages") -> None:
        super().__init__(text)
        self.param = param
