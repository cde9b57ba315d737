"""Code for models and tokenizers: loaded as Hone loads them, or made from nothing."""

from core.choices import Method, Precision, Quantization, Task
from core.errors import ModelError
from core.run_models import holds_adapter, is_run, model_folder
from core.scratch_models import is_scratch, positions_of, scratch_model, starts_random
from core.script.parts import Part, literal
from core.script.resolved import Resolved
from core.sources import parse_synthetic

HEADS = {
    Task.TEXT_CLASSIFICATION: "AutoModelForSequenceClassification",
    Task.TEXT_REGRESSION: "AutoModelForSequenceClassification",
    Task.TOKEN_CLASSIFICATION: "AutoModelForTokenClassification",
    Task.CAUSAL_LM: "AutoModelForCausalLM",
    Task.CHAT: "AutoModelForCausalLM",
    Task.PREFERENCE: "AutoModelForCausalLM",
    Task.IMAGE_CLASSIFICATION: "AutoModelForImageClassification",
}


def source(run: Resolved) -> str:
    """Where transformers finds the model: a folder, or an id on the Hub.

    Raises:
        ModelError: It starts from LoRA matrices of a past run, which have to be merged first.
    """
    asked = run.options.model.source
    folder = model_folder(asked) if is_run(asked) else None
    if folder is None:
        return asked
    if holds_adapter(folder):
        raise ModelError(
            "This run starts from LoRA matrices of a past run",
            f"{folder}: export that model, merged, and start from what comes of it; a script can load it then.",
        )
    return str(folder)


def reads(run: Resolved) -> list[Part]:
    """`config` and `tokenizer` of a text model that exists already."""
    if is_scratch(run.options.model.source):
        return []
    code = """
config = AutoConfig.from_pretrained(MODEL, trust_remote_code=False)
tokenizer = AutoTokenizer.from_pretrained(MODEL, trust_remote_code=False)
if tokenizer.pad_token is None:
    tokenizer.pad_token = tokenizer.eos_token
"""
    imports = ("from transformers import AutoConfig", "from transformers import AutoTokenizer")
    return [Part("The model's config and its tokenizer.", code, imports)]


def length(run: Resolved) -> Part:
    """`LENGTH`: where texts are cut off."""
    asked = run.options.data.max_length
    code = f"""
positions = getattr(config, "max_position_embeddings", None) or 0
LENGTH = min({asked}, tokenizer.model_max_length, *([positions] if positions > 0 else []))
"""
    return Part("", code)


def from_nothing(run: Resolved) -> list[Part]:
    """`config` and `tokenizer` of a model from scratch; the tokenizer is trained on what is trained on."""
    if not is_scratch(run.options.model.source):
        return []
    asked = scratch_model(run.options.model.source)
    assert asked is not None, "checked when the run began"
    return [_config(run), _tokenizer(run)]


def _config(run: Resolved) -> Part:
    asked = scratch_model(run.options.model.source)
    assert asked is not None
    kind = "LlamaConfig" if asked.writes else "BertConfig"
    ends = (
        "bos_token_id=0,\n    eos_token_id=0,\n    pad_token_id=1,\n    tie_word_embeddings=True,"
        if asked.writes
        else "pad_token_id=0,"
    )
    code = f"""
config = {kind}(
    vocab_size={run.options.model.vocabulary},
    hidden_size={asked.hidden},
    intermediate_size={asked.inner},
    num_hidden_layers={asked.layers},
    num_attention_heads={asked.heads},
    max_position_embeddings={positions_of(run.options.data.max_length)},
    {ends}
)
"""
    return Part("A small model from nothing.", code, (f"from transformers import {kind}",))


SAMPLE = '''
def sample(texts, characters=10_000_000):
    """So much of the texts at most, evenly spread over them: more changes hardly a token."""
    share, taken, seen = min(1.0, characters / max(1, sum(map(len, texts)))), 0, 0
    for text in texts:
        seen += len(text)
        if share == 1.0 or taken + len(text) / 2 <= share * seen:
            taken += len(text)
            yield text
'''


def _tokenizer(run: Resolved) -> Part:
    asked = scratch_model(run.options.model.source)
    assert asked is not None
    special = (
        ["<|endoftext|>", "<|pad|>", "<|im_start|>", "<|im_end|>"]
        if asked.writes
        else ["[PAD]", "[CLS]", "[SEP]", "[MASK]"]
    )
    code = f"""
{SAMPLE}

SPECIAL = {literal(special)}
bpe = Tokenizer(models.BPE())
bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
bpe.decoder = decoders.ByteLevel()
trainer_of_tokens = trainers.BpeTrainer(
    vocab_size={run.options.model.vocabulary},
    min_frequency=2,
    special_tokens=SPECIAL,
    initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    show_progress=False,
)
bpe.train_from_iterator({_texts(run)}, trainer_of_tokens)
{_wrapped(run, writes=asked.writes)}
"""
    names = ("Tokenizer", "decoders", "models", "pre_tokenizers", "trainers")
    imports = [f"from tokenizers import {name}" for name in names]
    imports.append("from transformers import PreTrainedTokenizerFast")
    if not asked.writes:
        imports.append("from tokenizers.processors import TemplateProcessing")
    return Part("Its tokenizer, trained on what is trained on.", code, tuple(imports))


def _texts(run: Resolved) -> str:
    if parse_synthetic(run.options.data.train):
        return "[]"
    match run.options.task:
        case Task.CAUSAL_LM:
            return "sample([piece for document in train_texts for piece in pieces(document)])"
        case Task.TOKEN_CLASSIFICATION:
            return 'sample([" ".join(row["words"]) for row in train_rows])'
    return "sample([row[name] for name in TEXT_COLUMNS for row in train_rows])"


def _wrapped(run: Resolved, *, writes: bool) -> str:
    longest = positions_of(run.options.data.max_length)
    if writes:
        return f"""tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=bpe,
    bos_token=SPECIAL[0],
    eos_token=SPECIAL[0],
    pad_token=SPECIAL[1],
    extra_special_tokens=SPECIAL[2:],
    model_max_length={longest},
    model_input_names=["input_ids", "attention_mask"],
)"""
    return f"""bpe.post_processor = TemplateProcessing(
    single="[CLS]:0 $A:0 [SEP]:0",
    pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
    special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
)
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=bpe,
    pad_token="[PAD]",
    cls_token="[CLS]",
    sep_token="[SEP]",
    mask_token="[MASK]",
    model_max_length={longest},
    model_input_names=["input_ids", "token_type_ids", "attention_mask"],
)"""


def loads(run: Resolved) -> Part:
    """`model`, its weights in fp32 or packed; the seed draws what is random about it."""
    task, method = run.options.task, run.options.model.method
    lines = _labelled(task)
    if task.reads_text:
        lines += ["if config.pad_token_id is None:", "    config.pad_token_id = tokenizer.pad_token_id"]
    imports = [f"from transformers import {HEADS[task]}", "from transformers import set_seed", "import torch"]
    lines.append("set_seed(SEED)")
    attention = literal(run.options.model.attention.value)
    if starts_random(run.options):
        lines += [
            f"model = {HEADS[task]}.from_config(",
            f"    config, dtype=torch.float32, trust_remote_code=False, attn_implementation={attention}",
            ")",
        ]
    else:
        packing = ""
        if method is Method.QLORA:
            packing = _packing(run)
            imports.append("from transformers import BitsAndBytesConfig")
            lines[-1:] = [HEADS_OF_MODEL.format(head=HEADS[task]), "set_seed(SEED)"]
            imports.append("import copy")
        lines.append(_from_pretrained(HEADS[task], attention, packing))
        if method is not Method.FULL:
            lines.append(FRESH)
    if task.writes_text:
        lines.append("model.generation_config.pad_token_id = tokenizer.pad_token_id")
    return Part("The model: the seed draws the weights of its new head.", "\n".join(lines), tuple(imports))


HEADS_OF_MODEL = """with torch.device("meta"):  # what stands beside the body learns, and isn't packed
    bare = {head}.from_config(copy.deepcopy(config), trust_remote_code=False)
heads = [
    name for name, part in bare.named_children()
    if name != bare.base_model_prefix and any(True for _ in part.parameters())
]"""


FRESH = """# What of the body has no weights to load is random, and learns, too.
missing = {*loading["missing_keys"], *(name for name, *_ in loading["mismatched_keys"])}
fresh = sorted({
    name.rpartition(".")[0] for name, _ in model.named_parameters()
    if name in missing and name.startswith(f"{model.base_model_prefix}.")
})"""


def _labelled(task: Task) -> list[str]:
    if task is Task.TEXT_REGRESSION:
        return ['config.num_labels, config.problem_type = 1, "regression"']
    if not task.has_labels:
        return []
    return [
        "config.num_labels = len(labels)",
        "config.id2label = dict(enumerate(labels))",
        "config.label2id = {label: number for number, label in enumerate(labels)}",
    ]


def _from_pretrained(head: str, attention: str, packing: str) -> str:
    return f"""model, loading = {head}.from_pretrained(
    MODEL,
    config=config,
    dtype=torch.float32,  # "auto" would train a half-precision checkpoint in half precision
    use_safetensors=True,  # pickled weights can run code when opened
    trust_remote_code=False,
    attn_implementation={attention},
    ignore_mismatched_sizes=True,  # a head for other labels is replaced
    output_loading_info=True,
{packing})"""


def _packing(run: Resolved) -> str:
    place = '    device_map={"": "cpu"},\n' if run.options.device.name == "cpu" else ""
    if run.options.model.quantization is Quantization.INT8:
        inner = "load_in_8bit=True, llm_int8_skip_modules=heads"
        return f"    quantization_config=BitsAndBytesConfig({inner}),\n{place}"
    names = {Precision.BF16: "torch.bfloat16", Precision.FP16: "torch.float16"}
    computed = names.get(run.options.device.precision, "torch.float32")
    return f"""    quantization_config=BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype={computed},
        llm_int8_skip_modules=heads,
    ),
{place}"""
