#include "cache/segment_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/error.h"

namespace fathom {
namespace {

constexpr char kSegmentMagic[8] = {'F', 'A', 'T', 'H', 'O', 'M', 'K', 'V'};
constexpr uint32_t kVersion = 1;
constexpr uint32_t kRecordMagic = 0x43455246;  // "FREC"
constexpr int kMaxRecordTokens = 1 << 20;      // more than any block has: what asks for more is damaged
constexpr size_t kMaxTransfer = size_t{1} << 30;
constexpr const char* kSuffix = ".seg";

struct SegmentHeader {
  char magic[8];
  uint32_t version;
  uint32_t reserved;
  PrefixKey fingerprint;
  char label[64];
  uint64_t hash;
};
static_assert(sizeof(SegmentHeader) == 104);

uint64_t hash_of(const SegmentHeader& header) { return XXH3_64bits(&header, offsetof(SegmentHeader, hash)); }

uint64_t hash_of(const RecordHeader& header, std::span<const TokenId> tokens) {
  const XXH64_hash_t seed = XXH3_64bits(&header, offsetof(RecordHeader, header_hash));
  return XXH3_64bits_withSeed(tokens.data(), tokens.size_bytes(), seed);
}

std::string system_message() { return std::generic_category().message(errno); }

[[noreturn]] void fail(const char* what, const std::string& path) {
  throw Error(ErrorCode::kIo, fmt::format("cannot {} {}: {}", what, path, system_message()));
}

// Whether all of it was there.
bool read_at(int fd, uint64_t offset, std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t n = ::pread(fd, out.data(), std::min(out.size(), kMaxTransfer), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      return false;
    }
    out = out.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
  return true;
}

class Descriptor {
 public:
  explicit Descriptor(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~Descriptor() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool ok() const { return fd_ >= 0; }

 private:
  int fd_;
};

// Reads the next record; false: it is not whole.
bool read_record(int fd, uint64_t offset, uint64_t file_bytes, Record& record, std::string& problem) {
  RecordHeader& header = record.header;
  if (!read_at(fd, offset, std::as_writable_bytes(std::span(&header, 1)))) {
    problem = fmt::format("the record at byte {} is incomplete", offset);
    return false;
  }
  if (header.magic != kRecordMagic || header.n_tokens < 0 || header.n_tokens > kMaxRecordTokens ||
      header.position < header.n_tokens) {
    problem = fmt::format("no record begins at byte {}", offset);
    return false;
  }
  record.tokens.resize(static_cast<size_t>(header.n_tokens));
  const std::span<std::byte> tokens = std::as_writable_bytes(std::span(record.tokens));
  record.payload_offset = offset + sizeof(RecordHeader) + tokens.size();
  if (!read_at(fd, offset + sizeof(RecordHeader), tokens) || record.payload_offset > file_bytes ||
      header.payload_bytes > file_bytes - record.payload_offset) {
    problem = fmt::format("the record at byte {} is incomplete", offset);
    return false;
  }
  if (header.header_hash != hash_of(header, record.tokens)) {
    problem = fmt::format("the record at byte {} is damaged", offset);
    return false;
  }
  return true;
}

int64_t nanoseconds(const timespec& t) { return static_cast<int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec; }

// Ours, by its first bytes, and written by nobody.
bool may_be_removed(const SegmentFile& file) {
  const Descriptor fd(file.path);
  char magic[sizeof(kSegmentMagic)];
  return fd.ok() && read_at(fd.get(), 0, std::as_writable_bytes(std::span(magic))) &&
         std::memcmp(magic, kSegmentMagic, sizeof(magic)) == 0 && ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0;
}

}  // namespace

PrefixKey chain_key(const PrefixKey& parent, std::span<const TokenId> tokens) {
  return chain_key(parent, std::as_bytes(tokens));
}

PrefixKey chain_key(const PrefixKey& parent, std::span<const std::byte> bytes) {
  std::vector<std::byte> all(parent.begin(), parent.end());
  all.insert(all.end(), bytes.begin(), bytes.end());
  const XXH128_hash_t hash = XXH3_128bits(all.data(), all.size());
  PrefixKey key;
  std::memcpy(key.data(), &hash, key.size());
  return key;
}

std::string key_text(const PrefixKey& key) {
  std::string text;
  for (const std::byte b : key) {
    text += fmt::format("{:02x}", static_cast<unsigned>(b));
  }
  return text;
}

ScannedSegment scan_segment(const std::string& path) {
  ScannedSegment segment;
  const Descriptor fd(path);
  struct stat info = {};
  if (!fd.ok() || ::fstat(fd.get(), &info) != 0) {
    segment.problem = fmt::format("cannot open: {}", system_message());
    return segment;
  }
  segment.file_bytes = static_cast<uint64_t>(info.st_size);
  SegmentHeader header = {};
  if (!read_at(fd.get(), 0, std::as_writable_bytes(std::span(&header, 1)))) {
    segment.problem = "too short for a segment";
    return segment;
  }
  if (std::memcmp(header.magic, kSegmentMagic, sizeof(header.magic)) != 0) {
    segment.problem = "not a segment of Fathom's disk cache";
    return segment;
  }
  if (header.version != kVersion) {
    segment.problem = fmt::format("version {}, expected {}", header.version, kVersion);
    return segment;
  }
  if (header.hash != hash_of(header)) {
    segment.problem = "the header is damaged";
    return segment;
  }
  segment.identity.fingerprint = header.fingerprint;
  segment.identity.label.assign(header.label, ::strnlen(header.label, sizeof(header.label)));
  segment.good_bytes = sizeof(SegmentHeader);
  Record record;
  while (segment.good_bytes < segment.file_bytes &&
         read_record(fd.get(), segment.good_bytes, segment.file_bytes, record, segment.problem)) {
    segment.good_bytes = record.payload_offset + record.header.payload_bytes;
    segment.records.push_back(std::move(record));
  }
  return segment;
}

SegmentReader::SegmentReader(std::string path)
    : path_(std::move(path)), fd_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (fd_ < 0) {
    fail("open", path_);
  }
}

SegmentReader::~SegmentReader() { ::close(fd_); }

void SegmentReader::read(uint64_t offset, uint64_t hash, std::span<std::byte> payload) const {
  if (!read_at(fd_, offset, payload) || XXH3_64bits(payload.data(), payload.size()) != hash) {
    throw Error(ErrorCode::kIo, fmt::format("{}: the payload at byte {} is damaged", path_, offset));
  }
}

void SegmentReader::touch() const noexcept { ::futimens(fd_, nullptr); }

SegmentWriter::SegmentWriter(std::string path, const SegmentIdentity& identity) : path_(std::move(path)) {
  fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd_ < 0) {
    fail("create", path_);
  }
  SegmentHeader header = {};
  std::memcpy(header.magic, kSegmentMagic, sizeof(header.magic));
  header.version = kVersion;
  header.fingerprint = identity.fingerprint;
  std::memcpy(header.label, identity.label.data(), std::min(identity.label.size(), sizeof(header.label) - 1));
  header.hash = hash_of(header);
  try {
    if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
      fail("lock", path_);
    }
    write_all(std::as_bytes(std::span(&header, 1)), 0);
  } catch (const Error&) {
    ::close(fd_);
    ::unlink(path_.c_str());
    throw;
  }
  size_ = sizeof(header);
}

SegmentWriter::~SegmentWriter() { ::close(fd_); }

uint64_t SegmentWriter::append(RecordHeader& header, std::span<const TokenId> tokens,
                               std::span<const std::byte> payload) {
  header.magic = kRecordMagic;
  header.n_tokens = static_cast<int32_t>(tokens.size());
  header.payload_bytes = payload.size();
  header.payload_hash = XXH3_64bits(payload.data(), payload.size());
  header.header_hash = hash_of(header, tokens);
  const uint64_t payload_offset = size_ + sizeof(header) + tokens.size_bytes();
  try {
    write_all(std::as_bytes(std::span(&header, 1)), size_);
    write_all(std::as_bytes(tokens), size_ + sizeof(header));
    write_all(payload, payload_offset);
  } catch (const Error&) {
    // A tail that stays, because this fails too, is recognised as incomplete and written over by the next record.
    static_cast<void>(::ftruncate(fd_, static_cast<off_t>(size_)) == 0);
    throw;
  }
  size_ = payload_offset + payload.size();
  return payload_offset;
}

void SegmentWriter::write_all(std::span<const std::byte> bytes, uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd_, bytes.data(), std::min(bytes.size(), kMaxTransfer), static_cast<off_t>(offset));
    if (n < 0) {
      if (errno == EINTR) {
        continue;
      }
      fail("write", path_);
    }
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
}

std::vector<SegmentFile> list_segments(const std::string& dir) {
  std::vector<SegmentFile> files;
  std::error_code error;
  const auto options = std::filesystem::directory_options::skip_permission_denied;
  for (auto entry = std::filesystem::recursive_directory_iterator(dir, options, error);
       !error && entry != std::filesystem::recursive_directory_iterator(); entry.increment(error)) {
    struct stat info = {};
    const std::string path = entry->path().string();
    if (path.ends_with(kSuffix) && ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode)) {
      files.push_back(
          {.path = path, .bytes = static_cast<uint64_t>(info.st_size), .used_ns = nanoseconds(info.st_mtim)});
    }
  }
  std::sort(files.begin(), files.end(), [](const SegmentFile& a, const SegmentFile& b) { return a.path < b.path; });
  return files;
}

std::vector<SegmentFile> prune_segments(const std::string& dir, uint64_t budget) {
  std::vector<SegmentFile> files = list_segments(dir);
  std::stable_sort(files.begin(), files.end(),
                   [](const SegmentFile& a, const SegmentFile& b) { return a.used_ns < b.used_ns; });
  uint64_t total = 0;
  for (const SegmentFile& file : files) {
    total += file.bytes;
  }
  std::vector<SegmentFile> removed;
  for (SegmentFile& file : files) {
    if (total > budget && may_be_removed(file) && ::unlink(file.path.c_str()) == 0) {
      total -= file.bytes;
      removed.push_back(std::move(file));
    }
  }
  return removed;
}

}  // namespace fathom
