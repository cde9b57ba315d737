"""Names people know from transformers' Trainer and its scripts, in tables; `core.trainer_translation` reads them.

Names as in transformers 5.23's TrainingArguments, in its guides of 2022 to 2024 that are gone since, and in the script
run_glue.py.
"""

from collections.abc import Mapping

from core.choices import Attention, Optimizer, Schedule

OPTIMIZERS = {
    "adamw_torch": Optimizer.ADAMW,
    "adamw_torch_fused": Optimizer.ADAMW,
    "adamw_hf": Optimizer.ADAMW,
    "adamw_apex_fused": Optimizer.ADAMW,
    "adafactor": Optimizer.ADAFACTOR,
    "adamw_bnb_8bit": Optimizer.ADAMW_8BIT,
    "adamw_8bit": Optimizer.ADAMW_8BIT,
    "paged_adamw_8bit": Optimizer.PAGED_ADAMW_8BIT,
    "adamw_torch_8bit": Optimizer.ADAMW_8BIT_TORCHAO,
    "lion_8bit": Optimizer.LION_8BIT,
    "ademamix": Optimizer.ADEMAMIX,
    "sgd": Optimizer.SGD,
}
"""Every name somebody may have written."""

OPTIMIZER_NAMES = {
    Optimizer.ADAMW: "adamw_torch_fused",
    Optimizer.ADAM: "adamw_torch_fused",
    Optimizer.ADAFACTOR: "adafactor",
    Optimizer.ADAMW_8BIT: "adamw_bnb_8bit",
    Optimizer.PAGED_ADAMW_8BIT: "paged_adamw_8bit",
    Optimizer.ADAMW_8BIT_TORCHAO: "adamw_torch_8bit",
    Optimizer.LION_8BIT: "lion_8bit",
    Optimizer.ADEMAMIX: "ademamix",
    Optimizer.SGD: "sgd",
}
"""What Trainer 5.23 calls each. It has no name for Adam without the W: `core.engine.optimizers` makes that one.

Fused means that one kernel updates all weights; torch has it on every device that Hone trains on.
"""

SCHEDULES = {
    "cosine_with_min_lr": Schedule.COSINE,
    "constant_with_warmup": Schedule.CONSTANT,
    "inverse_sqrt": Schedule.INVERSE_SQRT,
}
SPELLINGS: Mapping[str, Mapping[str, str]] = {
    "training.optimizer": OPTIMIZERS,
    "training.schedule": SCHEDULES,
    "model.attention": {"flash_attn_2": Attention.FLASH_2},
}
"""Values people know, by the option they belong to."""

OBSOLETE: Mapping[str, str] = {
    "use_mps_device": "it is gone from Trainer, which takes an Apple GPU by itself",
    "no_cuda": "it is use_cpu in Trainer today",
    "per_gpu_train_batch_size": "it is per_device_train_batch_size in Trainer today",
    "gradient_checkpointing": "it is activation_checkpointing in Trainer today",
    "warmup_ratio": "it is warmup_steps below 1 in Trainer today",
    "group_by_length": 'it is train_sampling_strategy="group_by_length" in Trainer today',
    "adafactor": 'it is optim="adafactor" in Trainer today',
    "cosine_with_min_lr": "Hone's cosine falls to zero",
    "adamw_hf": "it is gone from Trainer; adamw_torch has taken its place",
    "adamw_apex_fused": "it is gone from Trainer; adamw_torch_fused has taken its place",
}
"""Names and values that Hone still understands and Trainer doesn't, and what Trainer calls them now."""

GONE: Mapping[str, str] = {
    "evaluation_strategy": "it is eval_strategy today; Hone evaluates after each epoch",
    "overwrite_output_dir": "each run has a folder of its own; nothing is overwritten",
    "fp16_backend": "there is one way left, torch's own autocast",
    "half_precision_backend": "there is one way left, torch's own autocast",
    "fp16_opt_level": "it belonged to apex; torch's autocast took its place (device.precision)",
    "sharded_ddp": "it belonged to fairscale; memory.deepspeed took its place",
    "xpu_backend": "it is ddp_backend today; Hone trains in one process",
    "tpu_num_cores": "Hone trains on CUDA, Apple's MPS and the CPU",
    "tpu_metrics_debug": "Hone trains on CUDA, Apple's MPS and the CPU",
    "push_to_hub_model_id": "it is hub_model_id today",
    "push_to_hub_token": "it is hub_token today",
    "jit_mode_eval": "it is gone from Trainer",
    "use_ipex": "it is gone from Trainer; bf16 on the CPU needs no extension today (device.precision)",
    "ipex": "it is gone from Trainer; bf16 on the CPU needs no extension today (device.precision)",
    "torchdynamo": "it is torch_compile_backend today (device.compile_backend)",
    "include_inputs_for_metrics": "it is gone from Trainer",
    "past_index": "it is gone from Trainer",
    "logging_dir": "Hone shows a run's figures itself",
}
"""Names that no longer exist, or mean nothing in Hone, and what became of them."""

BY_ITSELF: Mapping[str, str] = {
    "bf16_full_eval": "evaluation is computed as training is",
    "fp16_full_eval": "evaluation is computed as training is",
    "output_dir": "each run has a folder of its own",
    "do_train": "a run always trains",
    "do_eval": "a run evaluates after each epoch",
    "do_predict": "a run evaluates after each epoch",
    "remove_unused_columns": "Hone hands on what the model takes",
    "report_to": "nothing is sent anywhere; the run page shows it all",
    "run_name": "output.name is what the run is called",
    "per_device_eval_batch_size": "evaluation takes the batch size of training",
    "eval_strategy": "a run evaluates after each epoch",
    "save_strategy": "a checkpoint is saved after each epoch (output.keep_checkpoints)",
    "gradient_checkpointing_kwargs": "the way without re-entrance is taken, which suits every model",
    "disable_tqdm": "the progress is shown anyhow",
    "ddp_find_unused_parameters": "Hone trains in one process",
    "local_rank": "Hone trains in one process",
    "dataloader_persistent_workers": "workers stay for the whole run",
    "logging_nan_inf_filter": "a loss that is no number is always told",
    "trust_remote_code": "Hone runs no code that comes with a model",
    "cache_dir": "models are kept where the Hub's own library keeps them",
    "overwrite_cache": "Hone looks after its own caches",
    "use_fast_tokenizer": "fast tokenizers are always taken",
    "activation_checkpointing_kwargs": "the way without re-entrance is taken, which suits every model",
    "average_tokens_across_devices": "Hone trains in one process",
    "dataloader_in_order": "batches always come in their order",
    "dataloader_multiprocessing_context": "workers are started in the way this system needs",
    "length_column_name": "Hone measures the texts itself",
    "skip_memory_metrics": "memory is always measured",
    "log_level": "the log has everything",
    "log_level_replica": "Hone trains in one process",
    "log_on_each_node": "Hone trains in one process",
    "label_names": "the labels are those of the data",
    "use_cache": "nothing is kept between batches while a model trains",
    "project": "nothing is sent anywhere; the run page shows it all",
    "ignore_mismatched_sizes": "a head for other labels is replaced anyhow",
}
BY_ITSELF_BEGINNINGS = (
    "logging_",
    "save_",
    "eval_",
    "hub_",
    "push_to_hub",
    "ddp_",
    "include_",
    "load_best_",
    "metric_for_",
    "trackio_",
)
"""Beginnings of the names of what Hone decides by itself."""

NO_OPTION = frozenset(
    {
        "accelerator_config",
        "batch_eval_metrics",
        "data_seed",
        "dataloader_drop_last",
        "debug",
        "enable_jit_checkpoint",
        "fsdp",
        "fsdp_config",
        "greater_is_better",
        "ignore_data_skip",
        "label_smoothing_factor",
        "liger_kernel_config",
        "lr_scheduler_kwargs",
        "neftune_noise_alpha",
        "optim_args",
        "optim_target_modules",
        "parallelism_config",
        "prediction_loss_only",
        "restore_callback_states_from_checkpoint",
        "resume_from_checkpoint",
        "torch_empty_cache_steps",
        "use_liger_kernel",
    }
)
"""Names of Trainer that Hone has nothing for."""
