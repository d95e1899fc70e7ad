#include "cli/cache.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "cache/segment_file.h"
#include "cli/exit_code.h"
#include "cli/numbers.h"
#include "cli/text_io.h"
#include "core/error.h"
#include "core/printable.h"

namespace fathom::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kWholeLine = 8192;  // paths are long

// The segments of one model with one set of settings.
struct Entry {
  std::string label;
  size_t segments = 0;
  size_t blocks = 0;
  size_t anchors = 0;
  int longest = 0;  // position of the deepest anchor
  uint64_t bytes = 0;
  int64_t used_ns = 0;
};

std::vector<SegmentFile> segments_of(const CacheCommandOptions& options) {
  if (!std::filesystem::is_directory(options.dir)) {
    throw Error(ErrorCode::kIo, fmt::format("{}: not a directory", options.dir));
  }
  return list_segments(options.dir);
}

std::string time_text(int64_t ns) {
  return fmt::format("{:%Y-%m-%d %H:%M}", fmt::localtime(static_cast<std::time_t>(ns / 1'000'000'000)));
}

void write_note(const std::string& path, const ScannedSegment& segment) {
  std::fputs(fmt::format("{}: {}; {} of {} bytes can be used\n", printable(path, kWholeLine), segment.problem,
                         segment.good_bytes, segment.file_bytes)
                 .c_str(),
             stderr);
}

// Payloads that are not those that were written.
size_t count_damaged(const std::string& path, const ScannedSegment& segment) {
  size_t damaged = 0;
  const SegmentReader reader(path);
  std::vector<std::byte> payload;
  for (const Record& record : segment.records) {
    payload.resize(record.header.payload_bytes);
    try {
      reader.read(record.payload_offset, record.header.payload_hash, payload);
    } catch (const Error& error) {
      std::fputs(fmt::format("{}\n", printable(error.what(), kWholeLine)).c_str(), stderr);
      ++damaged;
    }
  }
  return damaged;
}

}  // namespace

int cache_list(const CacheCommandOptions& options) {
  std::map<std::string, Entry> entries;
  for (const SegmentFile& file : segments_of(options)) {
    const ScannedSegment segment = scan_segment(file.path);
    if (!segment.problem.empty()) {
      write_note(file.path, segment);
    }
    if (segment.good_bytes == 0) {
      continue;
    }
    Entry& entry = entries[key_text(segment.identity.fingerprint)];
    entry.label = segment.identity.label;
    ++entry.segments;
    entry.bytes += file.bytes;
    entry.used_ns = std::max(entry.used_ns, file.used_ns);
    for (const Record& record : segment.records) {
      const bool is_anchor = record.header.kind == RecordKind::kAnchor;
      ++(is_anchor ? entry.anchors : entry.blocks);
      entry.longest = std::max(entry.longest, is_anchor ? record.header.position : 0);
    }
  }

  Json report = Json::array();
  std::string text = fmt::format("{:<32} {:<24} {:>8} {:>8} {:>8} {:>8} {:>10}  {}\n", "model", "name", "segments",
                                 "blocks", "anchors", "longest", "bytes", "last used");
  for (const auto& [key, e] : entries) {
    report.push_back({{"fingerprint", key},
                      {"name", printable(e.label)},
                      {"segments", e.segments},
                      {"blocks", e.blocks},
                      {"anchors", e.anchors},
                      {"longest", e.longest},
                      {"bytes", e.bytes},
                      {"last_used", e.used_ns / 1'000'000'000}});
    text += fmt::format("{} {:<24} {:>8} {:>8} {:>8} {:>8} {:>10}  {}\n", key, printable(e.label), e.segments, e.blocks,
                        e.anchors, e.longest, format_bytes(e.bytes), time_text(e.used_ns));
  }
  write_stdout(options.json ? report.dump(2) + "\n" : text);
  return kExitOk;
}

int cache_verify(const CacheCommandOptions& options) {
  size_t n_records = 0;
  size_t n_damaged = 0;
  size_t n_incomplete = 0;
  for (const SegmentFile& file : segments_of(options)) {
    const ScannedSegment segment = scan_segment(file.path);
    if (!segment.problem.empty()) {
      write_note(file.path, segment);
      ++n_incomplete;
    }
    n_records += segment.records.size();
    n_damaged += segment.good_bytes == 0 ? 0 : count_damaged(file.path, segment);
  }
  const Json report{{"records", n_records}, {"damaged", n_damaged}, {"incomplete_files", n_incomplete}};
  write_stdout(options.json ? report.dump(2) + "\n"
                            : fmt::format("{} records, {} damaged; {} files incomplete or of another kind\n", n_records,
                                          n_damaged, n_incomplete));
  return n_damaged == 0 ? kExitOk : kExitError;
}

int cache_prune(const CacheCommandOptions& options) {
  uint64_t total = 0;
  for (const SegmentFile& file : segments_of(options)) {
    total += file.bytes;
  }
  const std::vector<SegmentFile> removed = prune_segments(options.dir, options.budget);
  uint64_t bytes = 0;
  for (const SegmentFile& file : removed) {
    bytes += file.bytes;
  }
  const Json report{{"removed_segments", removed.size()}, {"removed_bytes", bytes}, {"left_bytes", total - bytes}};
  write_stdout(options.json ? report.dump(2) + "\n"
                            : fmt::format("{} segments with {} removed, {} left\n", removed.size(), format_bytes(bytes),
                                          format_bytes(total - bytes)));
  return kExitOk;
}

}  // namespace fathom::cli
