// genesis-run baseline: the loss that a table of byte pairs would reach on a text, to compare a model's loss with.
#include <iostream>

#include "models/data/byte_baseline.h"
#include "models/data/sources.h"
#include "tools/run/run_commands.h"

namespace genesis::tools {
namespace {

struct BaselineFlags {
  std::string file;
  Output out;
};

void baseline(const BaselineFlags& flags) {
  const std::string text = data::read_file(flags.file);
  const data::ByteBaseline result = data::byte_baseline(text);
  flags.out.print({{"bytes", text.size()}, {"unigram", result.unigram}, {"bigram", result.bigram}}, [&] {
    std::cout << fmt::format(
        "{} bytes; loss of a byte unigram model {:.4f}, of a byte bigram model {:.4f} nats per byte\n",
        text.size(), result.unigram, result.bigram);
  });
}

}  // namespace

void add_baseline(Command& app) {
  auto flags = std::make_shared<BaselineFlags>();
  Command* command = app.add_subcommand("baseline", "loss of byte unigram and bigram models of a text");
  command->add_option("file", flags->file, "a text file")->required();
  flags->out.add_to(*command);
  command->footer("Example:\n  genesis-run baseline text.txt");
  command->callback([flags] { baseline(*flags); });
}

}  // namespace genesis::tools
