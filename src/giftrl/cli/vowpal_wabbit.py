"""The options of Vowpal Wabbit, and what giftrl has in their place."""

import click

#: Option -> what to write instead, or why nothing is needed. docs/from-vowpal-wabbit.md has the same table.
OPTIONS = {
    "-d": "the files are arguments: giftrl train FILE",
    "--data": "the files are arguments: giftrl train FILE",
    "-f": "--model FILE",
    "--final_regressor": "--model FILE",
    "--initial_regressor": "--from MODEL",
    "--save_resume": "not needed: every model can be gone on from, with --from MODEL",
    "-t": "giftrl predict MODEL FILE",
    "--testonly": "giftrl predict MODEL FILE",
    "-r": "giftrl predict MODEL FILE --scores",
    "--raw_predictions": "giftrl predict MODEL FILE --scores",
    "--link": "giftrl predict --proba prints probabilities",
    "-b": "--bits N",
    "--bit_precision": "--bits N",
    "--loss_function": "--loss logistic, hinge, squared, quantile, poisson, ...",
    "--quantile_tau": "--loss quantile --set tau=NUMBER",
    "--oaa": "--loss softmax; labels are those of the first rows, or --labels 1..K",
    "--ect": "--loss softmax; labels are those of the first rows, or --labels 1..K",
    "--binary": "giftrl predict prints labels; --proba probabilities, --scores scores",
    "-l": "not needed: there is no learning rate",
    "--learning_rate": "not needed: there is no learning rate",
    "--power_t": "not needed: there is no learning rate to decay",
    "--initial_t": "not needed: there is no learning rate to decay",
    "--decay_learning_rate": "not needed: there is no learning rate to decay",
    "--adaptive": "not needed: features have their own scales by default",
    "--normalized": "not needed: features may be in any units",
    "--invariant": "not needed: updates take account of importance weights",
    "--sgd": "--beta 1 --update linear",
    "--ftrl": "--beta 1 --regularizer adagrad --update linear",
    "--coin": "not needed: coin betting is one of the experts of the default",
    "--bfgs": "not there: data are learnt from row by row",
    "--l1": "--beta 1 --regularizer elastic_net --set l1=NUMBER",
    "--l2": "--beta 1 --regularizer elastic_net --set l2=NUMBER",
    "-c": "giftrl convert FILE FILE.arrow, once",
    "--cache": "giftrl convert FILE FILE.arrow, once",
    "--cache_file": "giftrl convert FILE FILE.arrow, once",
    "-k": "not needed: no cache is used unless you name it",
    "--kill_cache": "not needed: no cache is used unless you name it",
    "--quadratic": "-q ab, or -q user:ad",
    "--cubic": "-q abc, or -q user:ad:page",
    "--ngram": "giftrl train --ngram N; the model knows it when it predicts",
    "--skips": "not there",
    "--ignore_linear": "not there",
    "--noconstant": "--no-constant",
    "--hash": "not needed: names are hashed, numbers are coordinates; --dictionary gives each name its own",
    "-a": "giftrl predict MODEL FILE --audit",
    "--audit": "giftrl predict MODEL FILE --audit",
    "--invert_hash": "giftrl inspect MODEL --top N shows the weights by name",
    "--readable_model": "giftrl inspect MODEL --top N shows the weights by name",
    "--progress": "not needed: a line is printed at each power of two",
    "-P": "not needed: a line is printed at each power of two",
    "--holdout_off": "--holdout 0",
    "--holdout_period": "--holdout N",
    "--early_terminate": "not needed: training stops when the held-out loss rises",
    "--daemon": "not there",
}


class VowpalWabbitHints(click.Command):
    """A command that answers an option of Vowpal Wabbit with ours."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as problem:
            ours = OPTIONS.get(problem.option_name)
            if ours is None:
                raise
            message = f"{problem.option_name} is an option of Vowpal Wabbit; here: {ours}"
            raise click.UsageError(message, ctx) from None
