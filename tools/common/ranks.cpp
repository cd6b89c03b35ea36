#include "tools/common/ranks.h"

#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <iostream>

#include "executor/distributed/launch.h"
#include "executor/distributed/local_launch.h"
#include "executor/environment.h"
#include "executor/runtime/device.h"
#include "schema/messages/log.h"
#include "schema/ranks/mesh_axes.h"
#include "tools/common/numbers.h"
#include "tools/common/usage.h"

namespace genesis::tools {

namespace {

// Warns if a launcher has started several ranks without --mesh: each does all of the work, which is seldom intended.
void warn_of_copies(SharedWork work) try {
  const Launch launch = find_ranks();
  if (launch.by != Launcher::kNone && launch.size > 1 && launch.rank == 0)
    log_warning(
        "{} started {} ranks, and without --mesh each of them works for itself: --mesh {}={} shares the "
        "work",
        name_of(launch.by), launch.size, work == SharedWork::kBatches ? kDataAxis : kTensorAxis, launch.size);
} catch (const Error&) {
  // A malformed variable of a launcher does not matter here, because this process takes no part in a run of ranks.
}

// Returns true if all ranks were started with one command line.
bool have_one_command() { return environment().one_command; }

void check_shares(const Mesh& mesh, SharedWork work) {
  if (work != SharedWork::kLayers) return;
  const int64_t ranks = mesh.size(kDataAxis), stages = mesh.size(kPipelineAxis);
  if (stages > 1)
    fail(
        "--mesh {}: ranks along 'pipeline' share the micro-batches' way through a training step, and here "
        "nothing trains: give --mesh tensor={}, whose ranks share the layers",
        mesh.to_string(), stages * mesh.size(kTensorAxis));
  if (ranks <= 1) return;
  fail(
      "--mesh {}: ranks along 'data' share batches of training, and here each would do the same: give --mesh "
      "tensor={}, "
      "whose ranks share the layers",
      mesh.to_string(), ranks * mesh.size(kTensorAxis));
}

// A launcher sends SIGTERM to the other ranks as soon as one has failed. While this object exists, a rank ends only
// two seconds after that signal. It learns within about a second which rank has failed, so it can still report it.
class TimeToSayWhy {
 public:
  explicit TimeToSayWhy(const World& world) : listens_(world.size() > 1) {
    if (!listens_) return;
    struct sigaction handle {};
    handle.sa_flags = SA_RESTART;
    handle.sa_handler = [](int) { ::alarm(2); };
    sigaction(SIGTERM, &handle, &before_[0]);
    handle.sa_handler = [](int) {
      ::signal(SIGTERM, SIG_DFL);
      ::raise(SIGTERM);
    };
    sigaction(SIGALRM, &handle, &before_[1]);
  }
  ~TimeToSayWhy() {
    if (!listens_) return;
    sigaction(SIGTERM, &before_[0], nullptr);
    sigaction(SIGALRM, &before_[1], nullptr);
  }
  TimeToSayWhy(const TimeToSayWhy&) = delete;
  TimeToSayWhy& operator=(const TimeToSayWhy&) = delete;

 private:
  const bool listens_;
  std::array<struct sigaction, 2> before_{};
};

// Ends the other ranks with the message `why`. Throws ExitCode if rank 0 prints the same message for all ranks.
void end_others(World& world, const std::string& why, int code) {
  world.abort(why);
  if (world.first_says(why)) throw ExitCode(code);
}

}  // namespace

std::shared_ptr<World> join_ranks(const std::string& mesh, const std::string& device, SharedWork work) {
  if (mesh.empty()) {
    warn_of_copies(work);
    return std::make_shared<World>();
  }
  const Mesh ranks = Mesh::parse(mesh);
  check_shares(ranks, work);
  const std::string resolved = resolve_device(device), kind = resolved.substr(0, resolved.find(':'));
  if (resolved != kind)
    fail("--mesh {} with --device {}: every rank takes a device of its own: give --device {}", mesh, device,
         kind);
  if (must_launch_ranks(ranks)) std::exit(launch_ranks(ranks, kind));
  return start_world(ranks, kind);
}

void warn_of_useless_zero(const std::string& mesh, int zero) {
  if (zero > 0 && Mesh::parse(mesh).size(kDataAxis) <= 1)
    log_warning(
        "--zero {} does nothing with --mesh {}: what it shares, the ranks along 'data' share (data=N)", zero,
        mesh);
}

SessionOptions session_options(const RunFlags& flags, const std::shared_ptr<World>& world) {
  return options_of_rank(flags.session_options(), world);
}

void as_rank(World& world, const std::function<void()>& body) {
  const TimeToSayWhy time(world);
  try {
    body();
  } catch (const std::bad_alloc&) {
    world.abort("out of memory");
    throw;
  } catch (const ExitCode& end) {
    world.abort(end.what());
    throw;
  } catch (const jobs::SettingError& error) {
    if (!have_one_command()) end_others(world, error.what(), 2);
    if (have_one_command() && !world.is_first())
      throw ExitCode(0);  // mpirun would end the other ranks at any other code
    throw;
  } catch (const std::exception& error) {
    end_others(world, error.what(), 1);
    throw;
  }
}

Option* add_mesh(Command& app, std::string& mesh) {
  return add_mesh(app, mesh,
                  "the ranks that compute the layers together, such as tensor=2: those that a launcher "
                  "started (mpirun, srun with MPI; on GPUs also srun without MPI, and torchrun's variables), "
                  "or processes of this host, one for each GPU");
}

Option* add_mesh(Command& app, std::string& mesh, const std::string& what) {
  const auto read = [&mesh](const std::vector<std::string>& words) {
    mesh = words.back();
    try {
      if (!mesh.empty()) Mesh::parse(mesh);
    } catch (const Error& error) {
      fail_usage("{}", error.message());
    }
  };
  return app.add_option("--mesh", read, what)->type_name("AXIS=RANKS,...");
}

void add_zero(Command& app, Option* mesh, int& zero) {
  add_number(app, "--zero", zero,
             "the ZeRO stage: the ranks along data shard 1: the optimizer's states, 2: gradients too, 3: "
             "weights too; 0: nothing",
             Range<int>{0, 3})
      ->needs(mesh);
}

FirstRankSpeaks::FirstRankSpeaks(const World& world) {
  if (world.is_first()) return;
  std::cout.flush();
  out_ = std::cout.rdbuf(nullptr);
  err_ = std::cerr.rdbuf(nullptr);
}

FirstRankSpeaks::~FirstRankSpeaks() {
  if (!out_) return;
  std::cout.rdbuf(out_);
  std::cerr.rdbuf(err_);
}

}  // namespace genesis::tools
