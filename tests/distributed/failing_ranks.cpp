// Programs of ranks that fail, with the reactions of the others, and of ranks that do not end on their own.
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <thread>

#include "backends/joining_ranks.h"
#include "executor/distributed/world.h"
#include "schema/core/error.h"
#include "tests/distributed/rank_main.h"
#include "tests/distributed/test_ranks.h"

namespace genesis::testing {
namespace {

// Exchanges through the world's collectives on the CPU, and only by texts on GPUs, where failures are reported in the
// same way.
void exchange_once(World& world) {
  if (ranks_have_gpus()) return world.barrier();
  std::vector<float> x(100000, 1.0f);
  const Exchange exchange{x.data(), x.data(), static_cast<int64_t>(x.size()), DType::f32};
  world.collectives()->group("data")->all_reduce({&exchange, 1}, RankReduction::kSum, nullptr);
  world.check();
}

// Makes the second rank fail after two exchanges, while the others continue.
void fail_by(const std::string& how, World& world) {
  if (how == "throws") fail("the disk of this rank is full");
  if (how == "aborts") world.abort("out of memory in node 'layers.3.mlp.up_proj'");
  if (how == "exits") std::exit(3);
  if (how == "is_killed") ::raise(SIGKILL);
  if (how == "hangs") std::this_thread::sleep_for(std::chrono::seconds(600));
}

// Memory that is unmapped in the destructor, so that any later access crashes.
class Pages {
 public:
  explicit Pages(size_t bytes)
      : bytes_(bytes),
        data_(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (data_ == MAP_FAILED) fail("no memory for a test");
  }
  ~Pages() { ::munmap(data_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  size_t bytes_;
  void* data_;
};

// The first two ranks exchange tensors that MPI sends eagerly, and tensors for which it uses a rendezvous. The first
// rank fails while it waits, and its memory is unmapped. The second, which has not heard of that before its first
// heartbeat, starts the next exchange.
void exchange_what_is_given_up(World& world, bool first_receives) {
  constexpr int64_t kShort = 1000, kLong = 1 << 20;
  const auto rest = [](int milliseconds) {
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
  };
  if (world.rank() < 2) {
    const Pages pages(kShort + kLong);
    const Exchange tensors[] = {{pages.data(), pages.data(), kShort, DType::u8},
                                {pages.data() + kShort, pages.data() + kShort, kLong, DType::u8}};
    RankGroup& group = *world.collectives()->group("data");
    std::thread beside([&] {
      rest(100);
      if (world.is_first()) world.abort("out of memory in node 'layers.3.mlp.up_proj'");
    });
    if (!world.is_first()) rest(300);
    const bool receives = world.is_first() == first_receives;
    receives ? group.receive(tensors, 1 - world.rank(), nullptr)
             : group.send(tensors, 1 - world.rank(), nullptr);
    beside.join();
  }
  world.barrier();
}

// Writes a file named by the process id to a folder that the test names, and stays.
void stay(const std::string& how) {
  std::signal(SIGTERM, SIG_IGN);
  std::ofstream(std::filesystem::path(std::getenv("GENESIS_TEST_PIDS")) / std::to_string(::getpid()));
  if (how == "one_stops" && find_launch().rank == 1) ::raise(SIGSTOP);
  std::this_thread::sleep_for(std::chrono::seconds(600));
}

void look_for_who_is_stopped() {
  JoiningRanks others("here", 1);
  for (int i = 0; i < 1000; ++i) {
    if (const std::string why = others.who_is_stopped(); !why.empty()) fail("{}", why);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

// Stops the second rank before it communicates with the others.
void stop_early(const std::string& how) {
  if (find_launch().rank == 1) ::raise(SIGSTOP);
  if (how == "stops_and_others_look") return look_for_who_is_stopped();
  start_world(Mesh::parse("data=" + std::to_string(find_launch().size)), "cpu",
              {.limits = {.call = 60, .silence = 2}});
}

void run(const std::string& how) {
  if (how == "stays" || how == "one_stops") return stay(how);
  if (how == "stops_early" || how == "stops_and_others_look") return stop_early(how);
  const int size = find_launch().size;
  const std::shared_ptr<World> world =
      start_world(Mesh::parse("data=" + std::to_string(size)), ranks_have_gpus() ? "cuda" : "cpu",
                  {.limits = {.call = 3, .end = 3, .patience = 1}});
  world->barrier();
  if (how == "differs") world->require_same("the model file", world->rank() == 1 ? "b" : "a");
  if (how == "hangs_in_peer_memory") return hang_in_peer_memory(*world);
  if (how == "gives_up_receiving" || how == "gives_up_sending")
    return exchange_what_is_given_up(*world, how == "gives_up_receiving");
  for (int i = 0; i < 2; ++i) exchange_once(*world);
  if (world->rank() == 1) fail_by(how, *world);
  for (int i = 0; i < 3; ++i) exchange_once(*world);
}

}  // namespace

int fail_as_rank(const std::string& how) {
  try {
    run(how);
    std::cerr << "ended well\n";
    return 0;
  } catch (const Error& error) {
    std::cerr << "rank " << find_launch().rank << " says: " << error.message() << std::endl;
    return 1;
  }
}

}  // namespace genesis::testing
