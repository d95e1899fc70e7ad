// How many CPUs this process may use: its affinity mask, and the cgroup quota that containers set.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace fathom {

// CPUs of the calling thread's affinity mask, ascending; never empty.
[[nodiscard]] std::vector<int> available_cpus();

// CPUs worth of time allowed by the text of a cgroup v2 `cpu.max` file ("150000 100000" is 1.5); nullopt when
// unlimited.
[[nodiscard]] std::optional<double> parse_cgroup_cpu_max(std::string_view text);

// Threads to use when the user does not say: the CPUs of the affinity mask, no more than the whole CPUs of the quota
// (threads that meet at a barrier all wait for one that is throttled), at least 1.
[[nodiscard]] int default_thread_count();

}  // namespace fathom
