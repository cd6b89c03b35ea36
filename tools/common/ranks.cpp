#include "tools/common/ranks.h"

#include <iostream>

#include "executor/distributed/time_to_say_why.h"
#include "executor/environment.h"
#include "schema/messages/log.h"
#include "schema/ranks/mesh_axes.h"
#include "tools/common/numbers.h"
#include "tools/common/usage.h"

namespace genesis::tools {

namespace {

// Returns true if all ranks were started with one command line.
bool have_one_command() { return environment().one_command; }

// Ends the other ranks with the message `why`. Throws ExitCode if rank 0 prints the same message for all ranks.
void end_others(World& world, const std::string& why, int code) {
  world.abort(why);
  if (world.first_says(why)) throw ExitCode(code);
}

}  // namespace

void warn_of_useless_zero(const std::string& mesh, int zero) {
  if (zero > 0 && Mesh::parse(mesh).size(kDataAxis) <= 1)
    log_warning(
        "--zero {} does nothing with --mesh {}: what it shares, the ranks along 'data' share (data=N)", zero,
        mesh);
}

SessionOptions session_options(const RunFlags& flags, const std::shared_ptr<World>& world) {
  return options_of_rank(flags.session_options(), world);
}

SessionOptions session_options(const RunFlags& flags, const std::shared_ptr<World>& world,
                               const std::string& mesh, int zero) {
  SessionOptions options = session_options(flags, world);
  options.zero = zero;
  if (world->is_first()) warn_of_useless_zero(mesh, zero);
  return options;
}

void run_ranks(const std::string& mesh, const RunFlags& flags, SharedWork work,
               const std::function<void(const std::shared_ptr<World>&)>& body) {
  const std::shared_ptr<World> joined = join_ranks(mesh, flags.device, work);
  World& world = *joined;
  const TimeToSayWhy time(world);
  try {
    body(joined);
  } catch (const std::bad_alloc&) {
    world.abort("out of memory");
    throw;
  } catch (const ExitCode& end) {
    world.abort(end.what());
    throw;
  } catch (const SettingError& error) {
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
