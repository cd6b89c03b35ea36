#include "executor/distributed/local_launch.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "backends/mpi/mpi_ranks.h"
#include "executor/distributed/child_ranks.h"
#include "executor/distributed/launch.h"
#include "executor/distributed/pending_signals.h"
#include "executor/distributed/session_folder.h"
#include "schema/core/error.h"
#include "schema/messages/log.h"

namespace genesis {
namespace {

namespace fs = std::filesystem;

// Returns this program and its arguments, as it was started.
std::vector<std::string> own_command() {
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(in, argument, '\0');) arguments.push_back(argument);
  if (arguments.empty()) fail("cannot read /proc/self/cmdline, which says how this program was started");
  arguments[0] = fs::read_symlink("/proc/self/exe").string();
  return arguments;
}

std::string find_program(const char* name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (std::string file = folder + "/" + name; ::access(file.c_str(), X_OK) == 0) return file;
  return "";
}

// Preloads a module that restricts mpirun to the loopback, since mpirun has no option for that. A path with a blank or a colon
// cannot be preloaded.
void listen_on_loopback_alone() {
  const std::string module = mpi::loopback_module().string();
  if (module.find_first_of(" :") != module.npos)
    return log_warning(
        "mpirun listens on all interfaces of this host while the run lasts: {} cannot be preloaded, as its "
        "path has a "
        "blank or a colon",
        module);
  const char* others = std::getenv("LD_PRELOAD");
  const std::string preloaded = others ? others : "";
  if (preloaded.starts_with(module)) return;
  ::setenv("LD_PRELOAD", (module + (preloaded.empty() ? "" : ":" + preloaded)).c_str(), 1);
}

// Runs in a child process and replaces it by the command. The child ends when this process does.
[[noreturn]] void become(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  block_recorded_signals();
  ::execv(arguments[0], arguments.data());
  ::dprintf(STDERR_FILENO, "cannot start %s: %s\n", arguments[0], std::strerror(errno));
  ::_exit(127);
}

// Puts Open MPI's files into the launcher's folder, so that they are removed however its processes end: the session files of
// mpirun, and the shared memory of ranks. A variable that the user has set stays.
void keep_files_in(const SessionFolder& folder, const char* variable) {
  if (!folder.path().empty()) ::setenv(variable, folder.path().c_str(), 0);
}

// Runs mpirun and returns its exit status. mpirun kills its processes some seconds after it gets a signal to end, even if ranks
// still have to save something. So it never gets one: it gets SIGUSR1, which it passes on, and ranks treat SIGUSR1 like the other
// signals.
int run_mpirun(const std::vector<std::string>& command) {
  if (!::isatty(STDOUT_FILENO)) ::setenv("GENESIS_STDOUT", "file", 0);
  std::error_code error;
  const SessionFolder files(fs::temp_directory_path(error)), memory("/dev/shm");
  keep_files_in(files, "OMPI_MCA_orte_tmpdir_base");
  keep_files_in(memory, "OMPI_MCA_btl_vader_backing_directory");
  std::signal(SIGCHLD, SIG_DFL);  // if it is ignored there is no exit status to wait for
  PendingSignals signals(PendingSignals::TerminalSignals::kReachThisOnly);
  const pid_t mpirun = ::fork();
  if (mpirun < 0) fail("cannot start {}: {}", command[0], std::strerror(errno));
  if (mpirun == 0) become(command);
  int first = 0, status = 0;
  while (::waitpid(mpirun, &status, WNOHANG) == 0) {
    while (const int number = signals.take()) {
      if (first == 0) first = number;
      ::kill(mpirun, SIGUSR1);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return first != 0 && code == 128 + SIGUSR1 ? 128 + first : code;
}

}  // namespace

bool must_launch_ranks(const Mesh& mesh) { return mesh.ranks() > 1 && find_launch().size == 1; }

int launch_ranks(const Mesh& mesh, std::string_view device_kind) {
  constexpr int64_t kMaxRanks = 512;
  if (mesh.ranks() > kMaxRanks)
    fail("mesh '{}' has {} ranks, and a tool starts at most {} on its host: start them with mpirun or srun",
         mesh.to_string(), mesh.ranks(), kMaxRanks);
  forget_launchers();  // else mpirun would start its ranks where Slurm says, and not inside another mpirun
  ::setenv("GENESIS_ONE_COMMAND", "1", 1);
  if (device_kind != "cpu") return run_child_ranks(static_cast<int>(mesh.ranks()), own_command());
  if (const std::string why = mpi::why_missing(); !why.empty()) fail("{}", why);  // once, not by every rank
  const std::vector<std::string> command = mpirun_command(mesh.ranks(), own_command());
  set_mpirun_environment();
  return run_mpirun(command);
}

std::vector<std::string> mpirun_command(int64_t ranks, const std::vector<std::string>& program) {
  std::vector<std::string> command = {find_program("mpirun"), "-n", std::to_string(ranks)};
  if (command[0].empty())
    fail("{} ranks on the CPU are started by mpirun, which is not there: apt install openmpi-bin", ranks);
  command.insert(command.end(), program.begin(), program.end());
  return command;
}

// Sets environment variables and not flags, since MPICH's mpirun does not know these flags. Variables that the user has set stay.
void set_mpirun_environment() {
  constexpr const char* kVariables[][2] = {
      {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
      {"OMPI_MCA_hwloc_base_binding_policy", "none"},
      {"OMPI_MCA_oob_tcp_if_include", "lo"},
      {"OMPI_MCA_pml", "ob1"},
      {"OMPI_MCA_btl", "self,vader"},
      {"OMPI_MCA_odls_base_sigkill_timeout", "4"},
  };
  for (const auto& [name, value] : kVariables) ::setenv(name, value, 0);
  listen_on_loopback_alone();
  if (::geteuid() == 0)
    for (const char* name : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"})
      ::setenv(name, "1", 0);
}

}  // namespace genesis
