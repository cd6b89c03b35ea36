// Makes, loads, plans and runs numbered random graphs: run_graphs FIRST COUNT [SECONDS [trace]]. A graph that crashes
// is reproduced by its number. `trace` prints each number before its graph begins.
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include "tests/fuzz/try_run.h"

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: run_graphs FIRST COUNT [SECONDS [trace]]\n");
    return 2;
  }
  const double seconds = argc > 3 ? std::atof(argv[3]) : 1e9;
  try {
    const auto counts = genesis::testing::run_random_graphs(std::strtoull(argv[1], nullptr, 10),
                                                            std::strtoull(argv[2], nullptr, 10), seconds,
                                                            /*seconds_each=*/60, /*trace=*/argc > 4);
    std::printf("%s\n", counts.to_string().c_str());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
