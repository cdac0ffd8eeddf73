"""Code that was shown to give the results of earlier code: the digests of both, and in what they differ."""

from __future__ import annotations

from typing import NamedTuple


class SameResults(NamedTuple):
    """Present code whose digest is replaced by that of earlier code, so that keys and records stay.

    An entry goes, or gets another ``now``, when that code changes again.
    """

    code: str  # what it is of
    now: str  # digest of the present code
    then: str  # and of the earlier code, which stands for it in keys
    why: str  # how they differ without another result


ENTRIES = (
    SameResults(
        code="the task classification",
        now="e373371a0d80327a7f48fbb293fb90f9d21d4fcc1ff55fa72d8bf31b54497221",
        then="df682223d06a003b2fb31c73e8f12c6ca34b0194dd4da83a524d46facbf9aa53",
        why="the padding, the length and the classes of models that are given, which have other keys now; what is "
        "refused; labels of truth values, or of one class, of which no records were made; and the side of "
        "padding, tokens that end texts, token types that a tokenizer leaves out, and classes in another order, "
        "which give other keys",
    ),
    SameResults(
        code="the task harness",
        now="529b117231247ffb07d231ad80b733ec7a7f04388396311a12dedd58ad2cb085",
        then="b6225145c0aefddb3f6abd7c7bfa3ec9fb8aeab668e3a4c050413d7021a3ec92",
        why="pruned models of another kind, tasks that lm-eval cannot score, and rows of local documents that ask "
        "nothing are refused, and only classifiers are given classes; the side of padding, and examples in "
        "prompts, give other keys; texts that begin with the token for beginnings, answers that are drawn or cut, "
        "several right choices, windows that hold the same tokens, and perplexities too large for a float, of "
        "which no records were made; texts without a token, and perplexity tasks that cannot be scored, are "
        "refused; local documents in several files, of another split or of the other task of ARC, have another "
        "digest, which is in the key; and how endings are scored, which has not changed, counts too",
    ),
    SameResults(
        code="the task translation",
        now="ce290cf5679cea4003c3669653b5b6a21006520705748c81f6daa0d50780b6bc",
        then="ab885334968bd42dfd8f2fbf85ac931038ed76d89e0f60a4f9b8aed157f0b868",
        why="as of the task harness; and decoders with more layers than their encoder, which could not generate",
    ),
    SameResults(
        code="the task translation, its evaluation",
        now="f5600c105ed8ee37ac37858390f7ea21e3b8eadf30e800650e7011c3a4f59b02",
        then="a0f0e8fc9920f33ba2a528aaeedc98d35b21908e44bf8c68d4fe05347a9eab9a",
        why="settings of a model's own that its translations failed with, or that cut them by the clock",
    ),
    SameResults(
        code="what all methods share",
        now="e6ecff7574ef28081783954d261404580db2bbac209645ec96121fe3fca00144",
        then="7566c48c1a7a33bd5e8d7b934a2f177311bc131c89ab6326aecf721672421d4e",
        why="graphs of greedy gradient scores are freed, how smaller models are saved, layers without heads call no "
        "kernel, and what was wrong is watched on models of which there are no records. Nor are there any of "
        "greedy scores where some units must stay, which are no longer scored by themselves, or of greedy "
        "gradient scores where blocks are no chain, which no longer take passes in vain. Both ends of a curve are "
        "evaluated before a method has the model, and more that a method may give, and weights that are made anew "
        "for each pass, are refused. How examples are divided and drawn, which has not changed, counts too; and "
        "masks are copied, with which no method that has records goes on",
    ),
    SameResults(
        code="methods.attr",
        now="f4fae7470d08187d348d3ca61976af558e8b8be8af405dfc65f5b7aadd5a830f",
        then="ea633e86fceb25616e2387e6d80335eb657fd33341d4df385f59790159175c3e",
        why="scores where values are changed before attention weighs them, where gradients are missing, and of experts",
    ),
    SameResults(
        code="methods.gnorm",
        now="d245971dc0f88caa0bd8320f7bba520b52e8a05bcc6880b8d1ec40a7d1531ecf",
        then="2997608b96eb4e9d70dafd9c947d2f6110016ce807e1dc4a8ec6bdb56bc9c2e7",
        why="scores where values are changed before attention weighs them, where gradients are missing, and of experts",
    ),
    SameResults(
        code="methods.tis",
        now="ead75307a4fae1c871f3194951df4b3d7991f3304c683f88dfa2c730bd0adb52",
        then="5a508192dfb707f6808ddb7e80fde52a27286c697564aca29f675fef9bbe8f88",
        why="scores where values are changed before attention weighs them, where gradients are missing, and of experts",
    ),
    SameResults(
        code="methods.hies",
        now="db58931aec953cbe8fb6df4ade69afb2e70deb817c7e4709d0f7e7aff0a4c067",
        then="41f6d9b1c65f490bfc64c8817af51c9fc68bb811d3e224e4be7a200029e60dec",
        why="scores where values are changed before attention weighs them, where gradients are missing, and of experts",
    ),
    SameResults(
        code="methods.kwon",
        now="3978e80d45faea5697a25f7bea4149b7dd88695421e190411e593016c227711a",
        then="cf2c27d69eb48fbf4ebd5d46dd9f88c4217b1323020d78f9e6ef62b5e75b5948",
        why="scores where values are changed before attention weighs them, where gradients are missing, and of "
        "experts; shares of heads and neurons where some heads must stay, even if all the others are too few; "
        "code that was written twice",
    ),
    SameResults(
        code="methods.llm_pruner",
        now="3110fdb0df92daf6bce7c03b6e10b1779b86512a0aa9250714bb010a8d5822f4",
        then="47724e1f6303dec40184c944e98bc58be530ff237c253bd430819ed53310c96f",
        why="scores where values are changed before attention weighs them, where gradients are missing, and of "
        "experts; code that was written twice",
    ),
    SameResults(
        code="methods.obs",
        now="90080b169c70f03b113313c47cb544b2d36fc93e50106c422a3d4e1d0003321f",
        then="0918fccae1bdb1c5af96126ec44bb2419a81283b10b015f5174f02953dfc5377",
        why="code that was written twice",
    ),
    SameResults(
        code="methods.cahp",
        now="61af4b5dd17b81d3a42affbd7c26cdc06cd53d4f84517caf1a7cc7dab6ba814d",
        then="5e887e79a5d3c88c36f6119426858afcee2e6bd991d68e7f40e166ef0f7ee2b9",
        why="sums on a GPU are taken on the CPU",
    ),
    SameResults(
        code="methods.amp",
        now="6088c3b7bb3a26fd4d9f36e8df99bd80dd8a967dbe9b125cb51a27fe90b048ab",
        then="2240dbf6883c4c823b69e7bd17812feb3f923f8e0953f932719c89b6f8677bcf",
        why="options that do not go together are refused before a run begins",
    ),
    SameResults(
        code="methods.path",
        now="553824b429f8ff70ca6ff689f2116349cb7b960fd6db49a805cf7d468ee7327f",
        then="da8f765bf56cc3314b2ac80cfd3845e891c3b896dd5f8c1f0aa1aac4b316cf5c",
        why="options that do not go together are refused before a run begins",
    ),
    SameResults(
        code="methods.random",
        now="7215321d6eca4ed7eaa01a8b5a887a8cd9576b9e381d35cc2b54d6063368a54d",
        then="eeae0a41c107152cf0a17a7c272e000671f2b77e78cad30568f8efee514d1f12",
        why="options that do not go together are refused before a run begins",
    ),
    SameResults(
        code="methods.amp_recovered",
        now="4b198ec25f63b3427701d9334f41865b64204de9e0e33845d27f329ff5a2e3d5",
        then="ed464aeade8c41785dbcbce0a0cfcaf986e66f956b9e03ff668a804230363b34",
        why="seeds of GPUs, and models on several of them; options of amp",
    ),
    SameResults(
        code="methods.dsp",
        now="3b960e2131d2b0ae78af42410dffe1ff8d9d867bf440a69246f25614def12256",
        then="62e44b42ba699adcadbd6708d09b86edbb759955511fb84d9718c6658c5595b0",
        why="seeds of GPUs, and models on several of them; options that do not go together are refused before a run "
        "begins",
    ),
    SameResults(
        code="methods.retrained",
        now="ca551396fc7b8152f6f585f13e8bf149ac9efabcb8b941587aa8b51134ba5069",
        then="2f9b248eaf9b6f4b13cee9ed61e011ac29df85d1f13f1b5e167ad2d3627ac685",
        why="seeds of GPUs, and models on several of them",
    ),
    SameResults(
        code="methods.voita",
        now="895e97ab80093647a0d45469a00b63b2d3c8e68fc27138daa9580373993aa778",
        then="48928655717b979cd6db1c79af1c6c0c92ea057484dcba9f1249c9e6adb0ecf0",
        why="seeds of GPUs, and models on several of them; weights of the penalty that are all the same, or of which "
        "fewer may be tried than were to be tried first",
    ),
    SameResults(
        code="methods.recovery.choosing",
        now="7d62a91035c1043844e3ce581cd520a7157cf2ed77fb998e3706ae6efe7ae9c7",
        then="6c96dd8f0ce3b3be1a00cb91483d443e62d0b6d83b93b5f8895ea939f73892b3",
        why="seeds of GPUs, and models on several of them; code that was written twice",
    ),
    SameResults(
        code="tasks.models.train",
        now="26ddc245bd45155d0f2bff1f88916858857d1bd94a705248918a521d26b816fe",
        then="c4bb16e2654d48c374723cd3979443e167aee4683afec778946c5175457669e5",
        why="less is imported before they are used; a loss that is not finite says no more",
    ),
    SameResults(
        code="training of a model that is given",
        now="f9e3164719376796b399c5cce91baf93a5168b25622b9c14d848e40baa4246eb",
        then="9b4754ff01ac2953daa7ef46761cd3c457629752ba3c11064a89c4eb7fe08396",
        why="less is imported before they are used; a loss that is not finite says no more",
    ),
    SameResults(
        code="the built-in model of classification",
        now="c819fd76a813cfaa695c441f6198be2ab80ca6360a23c4aabdb063981ee78b5c",
        then="6fc8d28a05919c05e1332686e15d0f50f34ca57762a480fc0f67774839433067",
        why="less is imported before they are used; a loss that is not finite says no more",
    ),
    SameResults(
        code="the built-in model of harness",
        now="7268fb66ba5a03996fd44f2596893747096a11faafc5788826a6e07c02d077c0",
        then="5a474c7fb299a117daad3f2fb42b35a8ac84ab7883d91a82ec9c30b836a71634",
        why="less is imported before they are used; a loss that is not finite says no more",
    ),
    SameResults(
        code="the built-in model of translation",
        now="2281ef4db9990c1716b17d92c376053d9e2c02c8ba66f3730c90949b9e54f803",
        then="876b4416cc12622c82a554b97071cafacfe6c43d26f55310d598d0b933d3d763",
        why="less is imported before they are used; a loss that is not finite says no more",
    ),
)
