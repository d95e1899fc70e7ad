#include "core/cpu_count.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

namespace fathom {
namespace {

constexpr const char* kCgroupRoot = "/sys/fs/cgroup";

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  return result.ec == std::errc() && result.ptr == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

std::string first_line(const std::filesystem::path& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

// The cgroup of this process under version 2 ("0::/a/b" in /proc/self/cgroup); empty when there is none.
std::string own_cgroup() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("0::")) {
      return line.substr(3);
    }
  }
  return {};
}

// The tightest quota from the process's own cgroup up to the root; nullopt when none is set.
std::optional<double> cgroup_v2_quota() {
  std::optional<double> tightest;
  const std::filesystem::path root(kCgroupRoot);
  std::filesystem::path group = root / std::filesystem::path(own_cgroup()).relative_path();
  for (;;) {
    const std::optional<double> quota = parse_cgroup_cpu_max(first_line(group / "cpu.max"));
    if (quota) {
      tightest = std::min(*quota, tightest.value_or(*quota));
    }
    if (group == root || !group.has_relative_path()) {
      return tightest;
    }
    group = group.parent_path();
  }
}

std::optional<double> cgroup_v1_quota() {
  const std::filesystem::path dir = std::filesystem::path(kCgroupRoot) / "cpu";
  // Version 1 spreads the same two numbers over two files and writes -1 for "no limit".
  const std::string quota = first_line(dir / "cpu.cfs_quota_us");
  return parse_cgroup_cpu_max(quota + " " + first_line(dir / "cpu.cfs_period_us"));
}

}  // namespace

std::vector<int> available_cpus() {
  // The kernel refuses a mask shorter than its own, so grow until it fits.
  constexpr int kMaxCpus = 1 << 16;
  for (int n_cpus = CPU_SETSIZE; n_cpus <= kMaxCpus; n_cpus *= 2) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> mask(CPU_ALLOC(static_cast<size_t>(n_cpus)),
                                                                [](cpu_set_t* set) { CPU_FREE(set); });
    const size_t mask_bytes = CPU_ALLOC_SIZE(static_cast<size_t>(n_cpus));
    if (mask == nullptr || sched_getaffinity(0, mask_bytes, mask.get()) != 0) {
      continue;
    }
    std::vector<int> cpus;
    for (int cpu = 0; cpu < n_cpus; ++cpu) {
      if (CPU_ISSET_S(static_cast<size_t>(cpu), mask_bytes, mask.get())) {
        cpus.push_back(cpu);
      }
    }
    return cpus;
  }
  return {0};
}

std::optional<double> parse_cgroup_cpu_max(std::string_view text) {
  const size_t space = text.find(' ');
  if (space == std::string_view::npos) {
    return std::nullopt;
  }
  const std::optional<double> quota = parse_number(text.substr(0, space));  // "max" is not a number: no limit
  const std::optional<double> period = parse_number(text.substr(space + 1));
  if (!quota || !period || *quota <= 0 || *period <= 0) {
    return std::nullopt;
  }
  return *quota / *period;
}

int default_thread_count() {
  const int n_cpus = static_cast<int>(available_cpus().size());
  std::optional<double> quota = cgroup_v2_quota();
  if (!quota) {
    quota = cgroup_v1_quota();
  }
  return quota && *quota < n_cpus ? std::max(1, static_cast<int>(*quota)) : n_cpus;
}

}  // namespace fathom
