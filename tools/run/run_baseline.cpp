// genesis-run baseline: the loss that a table of byte pairs would reach on a text, to compare a model's loss with.
#include <array>
#include <cmath>
#include <iostream>

#include "models/data/sources.h"
#include "tools/run/run_commands.h"

namespace genesis::tools {
namespace {

struct BaselineFlags {
  std::string file;
  Output out;
};

struct Baselines {
  double unigram = 0, bigram = 0;  // nats per byte, with counts from the measured text itself
};

Baselines measure(const std::string& text) {
  if (text.size() < 2) fail("the text has {} bytes, two are needed", text.size());
  std::vector<std::array<double, 256>> pairs(256, std::array<double, 256>{});
  std::array<double, 256> first{}, second{};
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    const auto a = static_cast<unsigned char>(text[i]), b = static_cast<unsigned char>(text[i + 1]);
    ++pairs[a][b];
    ++first[a];
    ++second[b];
  }
  const auto total = static_cast<double>(text.size() - 1);
  Baselines result;
  for (size_t a = 0; a < 256; ++a) {
    if (second[a] > 0) result.unigram -= second[a] / total * std::log(second[a] / total);
    for (size_t b = 0; b < 256; ++b)
      if (pairs[a][b] > 0) result.bigram -= pairs[a][b] / total * std::log(pairs[a][b] / first[a]);
  }
  return result;
}

void baseline(const BaselineFlags& flags) {
  const std::string text = data::read_file(flags.file);
  const Baselines result = measure(text);
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
