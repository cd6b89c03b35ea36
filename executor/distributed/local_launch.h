// Starts the ranks of a run on this host, for a program that needs several while no launcher has started more than this process.
// Ranks on CPUs are started by mpirun. Ranks on GPUs are copies of this program, one per GPU, which meet at the loopback address.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "schema/ranks/mesh.h"

namespace genesis {

// Returns true if the mesh has several ranks and this process is the only one: it was started directly, or by a launcher that
// started one process (srun --pty bash, mpirun -n 1). Throws Error if the variables of a launcher are incomplete (see launch.h).
bool must_launch_ranks(const Mesh& mesh);

// Runs this program with its arguments once per rank and waits for all. Returns 0 if all succeeded, else the exit status of the
// first rank that failed (128 + N after signal N). Only the first rank keeps its stdout. SIGINT, SIGTERM, SIGHUP and SIGUSR1 are
// passed on, through mpirun as SIGUSR1. When a rank fails, the others have kGraceSeconds (child_ranks.h) to exit on their own,
// and 4 s under mpirun. Throws Error if MPI or mpirun is missing, or a process cannot be started.
int launch_ranks(const Mesh& mesh, std::string_view device_kind);

// Returns the command that starts `program` on `ranks` ranks of this host; set_mpirun_environment() sets the environment it
// needs. There may be more ranks than cores, threads are not bound to cores, and ranks exchange data through shared memory and
// the loopback, where mpirun listens during the run. Throws Error if mpirun is missing, or the module that keeps mpirun on the
// loopback.
std::vector<std::string> mpirun_command(int64_t ranks, const std::vector<std::string>& program);
void set_mpirun_environment();

}  // namespace genesis
