// genesis-run: shows what model files contain and runs them.
#include "tools/common/usage.h"
#include "tools/run/run_commands.h"
#include "tools/run/text_commands.h"

namespace {

constexpr const char* kExamples = R"(Examples:
  genesis-run info model.genesis
  genesis-run infer mlp.genesis --entry forward --input x=x.npy --output y.safetensors
  genesis-run train train.genesis --data text.txt --steps 500 --checkpoint run/
  genesis-run generate model.genesis --prompt "In the beginning" --max-tokens 200 --temperature 0.8
  genesis-run chat qwen.genesis --tokenizer Qwen2.5-0.5B-Instruct
  genesis-run embed minilm.genesis --input texts.txt -o vectors.npy
  genesis-run rerank reranker.genesis --query "what do cats eat" --input texts.txt
  genesis-run export run/ -o my-model
  genesis-run serve qwen.genesis --port 8080
  genesis-run profile model.genesis --entry decode --input position=full:5 --trace trace.json
Each command has its own --help.)";

}  // namespace

int main(int argc, char** argv) {
  using namespace genesis::tools;
  return run_tool(
      argc, argv, "genesis-run", "Looks into .genesis files and runs them.", kExamples, [](Command& app) {
        app.require_subcommand(0, 1);  // 1 would report a wrong name only as a missing command
        app.callback([&app] {
          if (!app.has_given_subcommand())
            fail_missing(
                "a command (info, infer, train, generate, chat, embed, rerank, eval, bench, profile, "
                "compare, baseline, tokenize, export, check-op or serve)");
        });
        for (auto add : {add_info, add_infer, add_train, add_generate, add_chat, add_embed, add_rerank,
                         add_eval, add_bench, add_profile, add_compare, add_baseline, add_tokenize,
                         add_export, add_check_op, add_serve})
          add(app);
      });
}
