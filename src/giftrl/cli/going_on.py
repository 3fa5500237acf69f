"""``giftrl train --from``: the model to go on with."""

from typing import Any

import click


def model_of(path: str, options: dict[str, Any]) -> Any:
    """The model of a file, if the options that were given agree with its settings."""
    from giftrl.errors import InvalidInput
    from giftrl.training import LinearModel, Settings

    model, more = LinearModel.load(path)
    if "position" in more:
        raise InvalidInput("from", path, "is the checkpoint of an unfinished run", "use --resume with its command")
    context = click.get_current_context()
    renamed = {"labels": "label_values", "dictionary": "bits"}
    names = {
        renamed.get(name, name)
        for name in context.params
        if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT
    }
    given = {name: value for name, value in options.items() if name in names and (name, value) != ("loss", "auto")}
    wanted = Settings.restore(model.settings.state() | given)
    different = wanted.differences(model.settings)
    if different:
        rule = f"was trained with other settings: {'; '.join(different)}"
        raise InvalidInput("from", path, rule, "leave these options out, or train anew")
    return model
