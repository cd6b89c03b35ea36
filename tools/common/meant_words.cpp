#include "tools/common/meant_words.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <sstream>
#include <string_view>

#include "schema/graph/near_names.h"

namespace genesis::tools {
namespace {

using Names = std::vector<std::string>;

// Words separated by spaces. Each word means any of the options `meant` that the command has.
struct Synonyms {
  const char *words, *meant;
};
// Words for which the tool has no option and no command; `advice` says what to use instead.
struct Advice {
  const char *tools, *words, *advice;  // tools: the beginning of a tool's name
};

// clang-format off
constexpr Synonyms kOptions[] = {
    {"p input-text text query", "--prompt"}, {"f prompt-file prompts-file input-file", "--prompts --data"},
    {"n n-predict num-predict predict max-new-tokens max-length max-tokens-to-sample tokens", "--max-tokens"},
    {"temp t", "--temperature"}, {"repeat-penalty", "--repetition-penalty"},
    {"c ctx n-ctx ctx-size context-size context-length max-model-len num-ctx", "--context"},
    {"j num-threads n-threads nproc cores cpus", "--threads"}, {"s random-seed manual-seed rng-seed", "--seed"},
    {"num-return-sequences n-samples best-of", "--samples"}, {"reverse-prompt stop-sequence stop-word", "--stop"},
    {"md draft-model model-draft assistant-model speculative-model prompt-lookup", "--draft"},
    {"draft-max num-assistant-tokens num-speculative-tokens prompt-lookup-num-tokens", "--draft-tokens"},
    {"sys system-prompt system-message", "--system"}, {"chat-template jinja chat-template-file", "--template"},
    {"chat-template-kwargs", "--variables"},
    {"b bs batch-size train-batch-size per-device-train-batch-size micro-batch-size", "--batch"},
    {"seq-len seq-length max-seq-length max-seq-len sequence-length block-size cutoff-len", "--seq"},
    {"max-steps num-steps n-steps num-train-steps iters iterations max-iters niter", "--steps"},
    {"time max-time time-limit", "--minutes"},
    {"dataset dataset-path train-data train-file training-file data-path corpus", "--data"},
    {"val-data valid-data validation-data validation-file eval-file eval-dataset test-data", "--eval-data"},
    {"eval-steps eval-interval eval-freq evaluation-steps", "--eval-every"},
    {"val-split validation-split test-size eval-ratio", "--holdout"}, {"early-stopping early-stopping-patience", "--patience"},
    {"save-steps save-every save-interval save-freq checkpoint-interval", "--checkpoint-every"},
    {"ckpt checkpoint-dir save-dir output-dir ckpt-dir", "--checkpoint --output"}, {"save-total-limit keep-last", "--keep"},
    {"resume-from-checkpoint continue", "--resume"}, {"o out outfile out-file save save-to output-file output-path", "--output"},
    {"logdir log-dir logging-dir tb", "--tensorboard"}, {"log log-file metrics-file", "--metrics"},
    {"r lora-r lora-rank rank", "--lora"}, {"target-modules lora-target-modules lora-target", "--lora-targets"},
    {"optim opt", "--optimizer --train"}, {"lora-path peft peft-model lora-adapter", "--adapter"},
    {"merge merge-and-unload merge-adapter", "--merge-lora"}, {"ema", "--averages"},
    {"quantization quant bits load-in-8bit load-in-4bit int8 int4 q8 q4 outtype", "--quantize"},
    {"dtype fp16 bf16 half precision mixed-precision amp torch-dtype", "--dtype --cast"}, {"exclude skip-pass", "--disable"},
    {"shape dims input-shape", "--size"}, {"warmup repeat iterations repetitions num-runs", "--runs"},
    {"tp tensor-parallel-size num-gpus n-gpus nproc-per-node world-size data-parallel-size", "--mesh"},
    {"zero-stage fsdp deepspeed", "--zero"}, {"tok tokenizer-path tokenizer-name vocab", "--tokenizer"},
    {"api-key api-keys", "--api-key-file"}, {"max-shard-size", "--shard-size"}, {"overwrite replace overwrite-output-dir f", "--force"},
    {"q silent no-progress disable-tqdm", "--quiet"}, {"usage ?", "--help"}, {"V ver", "--version"},
};
// clang-format on

constexpr const char* kOfOptimizer =
    "lr learning-rate wd weight-decay momentum beta1 beta2 adam-beta1 adam-beta2 eps clip grad-clip "
    "max-grad-norm "
    "clip-grad-norm scheduler lr-scheduler lr-scheduler-type schedule warmup warmup-steps warmup-ratio "
    "num-warmup-steps "
    "gradient-accumulation-steps grad-accum accumulate ema";

// clang-format off
constexpr Advice kOptionAdvice[] = {
    {"genesis-run train", kOfOptimizer, "it is a setting of the optimizer: --optimizer adamw,lr=1e-3,weight_decay=0.1,clip=1.0,schedule=cosine,warmup=10,total=100"},
    {"genesis-opt", kOfOptimizer, "it is a setting of the optimizer: --train adamw,lr=1e-3,weight_decay=0.1,clip=1.0,schedule=cosine,warmup=10,total=100"},
    {"genesis-run train", "e epoch epochs n-epochs num-epochs num-train-epochs max-epochs", "a run's length is given in steps (--steps N) or time (--minutes M); an epoch has as many steps as there are samples, divided by --batch"},
    {"genesis-run train", "fp16 bf16 half precision mixed-precision amp dtype torch-dtype", "the dtype is a property of the training step: `genesis-opt MODEL --train adamw --cast bf16 -o train.genesis`"},
    {"genesis-run export", "q quant quantize int8 int4 gguf outtype", "a folder of transformers is written; `genesis-opt MODEL --quantize q8 -o FILE` quantizes a .genesis file"},
    {"genesis-run", "dtype fp16 bf16 half precision torch-dtype quantize quantization load-in-8bit load-in-4bit", "the dtype is that of the file: `genesis-opt MODEL --cast bf16 -o FILE` or --quantize q8 makes another one"},
    {"genesis-run", "gpu cuda use-cuda use-gpu gpu-layers n-gpu-layers ngl gpus device-map", "--device cuda runs the whole model on a GPU, and --device auto does where there is one"},
    {"genesis-run", "memory-budget remat", "it limits the memory of a training step: train has it, and infer, bench and profile with --entry train_step"},
    {"genesis-run", "cpu no-cuda no-gpu cpu-only", "the CPU is what runs without --device, and with --device cpu"},
    {"genesis-run", "m model model-path model-name model-name-or-path checkpoint-path hf-repo hf", "the model is named behind the command without an option, as in `genesis-run info model.genesis`"},
    {"genesis-run", "v verbose debug log-level", "the environment variable GENESIS_LOG=debug says more"},
    {"genesis-run", "host port api-key", "`genesis-run serve MODEL` has them, and answers clients over HTTP"},
    {"genesis-build", "dtype fp16 bf16 half precision torch-dtype outtype", "--set dtype=bf16 chooses it"},
    {"genesis-build", "q quant quantize quantization int8 int4 load-in-8bit load-in-4bit bits", "`genesis-opt FILE.genesis --quantize q8 -o OTHER.genesis` quantizes a model"},
    {"genesis-build", "vocab-size hidden-size n-layer n-layers num-layers num-hidden-layers n-embd n-head num-heads num-attention-heads d-model config", "settings of a model are given as --set hidden_size=256; --list shows them all"},
    {"genesis-build", "m model name arch architecture model-name-or-path hf-repo", "the model is named without an option, as in `genesis-build qwen2 -o model.genesis`"},
    {"genesis-opt", "epochs steps data batch batch-size seq", "genesis-opt makes a file ready for training, and `genesis-run train FILE` trains it"},
    {"genesis-opt", "device gpu cuda", "--check cuda says what a GPU would take, and --target cuda runs its passes"},
    {"genesis-opt", "m model", "the file is named without an option, as in `genesis-opt model.genesis --text`"},
    {"genesis-viz", "format type f", "the ending of -o FILE decides: .html, .svg, .png, .pdf, .dot or .json"},
    {"genesis-viz", "host port serve", "`genesis-viz watch DIR --port N` serves a live page"},
};
// clang-format on

constexpr Synonyms kCommands[] = {
    {"finetune fine-tune fit pretrain learn sft training", "train"},
    {"predict forward inference run call eval-once", "infer"},
    {"sample complete completion completions write text text-generation gen", "generate"},
    {"talk interactive repl conversation converse cli ask", "chat"},
    {"evaluate perplexity ppl validate test score", "eval"},
    {"benchmark time speed perf timeit", "bench"},
    {"trace prof timing", "profile"},
    {"encode decode detokenize tokens tokenizer", "tokenize"},
    {"inspect show summary describe ls stat print dump-info config", "info"},
    {"save dump save-pretrained to-hf", "export"},
    {"diff cmp difference", "compare"},
    {"server api api-server http host openai", "serve"},
    {"live monitor tensorboard serve server", "watch"},
};

constexpr const char* kServing = "serve server api api-server http host openai";
constexpr const char* kDownloading = "download pull hf fetch";

constexpr Advice kCommandAdvice[] = {
    {"genesis-", kServing, "`genesis-run serve MODEL` answers clients of OpenAI's API"},
    {"genesis-", kDownloading,
     "`genesis-run chat --hf OWNER/NAME` and `genesis-build --hf OWNER/NAME -o model.genesis` fetch a model "
     "of Hugging Face"},
    {"genesis-", "quantize quant quantise q8 q4", "`genesis-opt MODEL --quantize q8 -o FILE` quantizes"},
    {"genesis-", "cast half fp16 bf16", "`genesis-opt MODEL --cast bf16 -o FILE` does that"},
    {"genesis-", "merge merge-lora", "`genesis-opt MODEL --merge-lora -o FILE` does that"},
    {"genesis-", "optimize optimise opt compile", "`genesis-opt MODEL -o FILE` does that"},
    {"genesis-", "convert import build create new convert-hf-to-gguf",
     "`genesis-build FOLDER -o model.genesis` makes a model file, and `genesis-build --list` shows the "
     "models of the zoo"},
    {"genesis-", "list models zoo", "`genesis-build --list` shows the models of the zoo"},
    {"genesis-", "viz visualize visualise plot draw graph", "`genesis-viz MODEL -o FILE.html` does that"},
    {"genesis-", "help usage man", "--help lists what there is"},
    {"genesis-", "version ver", "--version says it"},
};

// Returns "max-new-tokens" for "--Max_New_Tokens".
std::string plain(const std::string& word) {
  std::string name = word.substr(std::min(word.find_first_not_of('-'), word.size()));
  for (char& c : name) c = c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

Names words_of(const char* words) {
  std::istringstream in(words);
  Names names;
  for (std::string name; in >> name;) names.push_back(name);
  return names;
}

bool holds(const char* words, const std::string& word) {
  const Names names = words_of(words);
  return std::ranges::find(names, word) != names.end();
}

template <class Table>
std::string synonym(const Table& table, const std::string& word, const Names& known) {
  for (const Synonyms& row : table) {
    if (!holds(row.words, word)) continue;
    for (const std::string& meant : words_of(row.meant))
      if (std::ranges::find(known, meant) != known.end()) return meant;
  }
  return "";
}

template <class Table>
std::string advice(const Table& table, const std::string& tool, const std::string& word) {
  for (const Advice& row : table)
    if (tool.starts_with(row.tools) && holds(row.words, word)) return row.advice;
  return "";
}

std::string did_you_mean_it(const std::string& name) {
  return name.empty() ? "" : ": did you mean '" + name + "'?";
}

}  // namespace

std::string meant_option(const std::string& tool, const std::string& option, const Names& known) {
  const std::string word = plain(option);
  // The command may have the option in another spelling: "--learning_rate" for "--learning-rate".
  if (std::ranges::find(known, "--" + word) != known.end()) return did_you_mean_it("--" + word);
  if (const std::string said = advice(kOptionAdvice, tool, word); !said.empty()) return ": " + said;
  if (const std::string name = synonym(kOptions, word, known); !name.empty()) return did_you_mean_it(name);
  return did_you_mean_it(nearest_name(option, known));
}

std::string meant_command(const std::string& tool, const std::string& command, const Names& known) {
  const std::string word = plain(command);
  if (const std::string name = synonym(kCommands, word, known); !name.empty()) return did_you_mean_it(name);
  if (const std::string said = advice(kCommandAdvice, tool, word); !said.empty()) return ": " + said;
  return did_you_mean_it(nearest_name(command, known));
}

std::string advice_on_command(const std::string& tool, const std::string& word) {
  return advice(kCommandAdvice, tool, plain(word));
}

std::string meant_value(const std::string& value, const Names& known) {
  static constexpr Synonyms kValues[] = {
      {"float32 fp32 float single", "f32"},
      {"float16 fp16 half", "f16"},
      {"bfloat16 bfloat", "bf16"},
      {"int8 i8 8bit 8 q8-0 w8a16 q8-k", "q8"},
      {"int4 i4 4bit 4 q4-0 q4-1 q4-k q4-k-m q4-k-s w4a16 nf4", "q4"},
      {"gpu nvidia cuda-gpu", "cuda"},
      {"cpu:0 host x86", "cpu"},
      {"gpu:0", "cuda:0 cuda"},
      {"adam-w adamw-torch", "adamw"},
  };
  const std::string word = plain(value);
  if (std::ranges::find(known, word) != known.end()) return fmt::format(" (did you mean '{}'?)", word);
  if (const std::string name = synonym(kValues, word, known); !name.empty())
    return fmt::format(" (did you mean '{}'?)", name);
  return did_you_mean(value, known);
}

}  // namespace genesis::tools
