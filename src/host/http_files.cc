// The handlers for contents of files (U-6). A content is named by its SHA-256, so nobody can replace one by another,
// and every client that knows the name may read it: workers, and users of any role.
//
// Memory: an upload comes in pieces of at most kMostPieceBytes, and a download leaves in blocks.
#include <charconv>
#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "base/json_text.h"
#include "base/log.h"
#include "host/file_uploads.h"
#include "host/follower.h"
#include "host/http_reading.h"
#include "host/http_routes.h"
#include "host/http_views.h"
#include "rota/fiber/blocking.h"

namespace rota::host {

namespace {

// A content that no workflow refers to yet may be one whose task is about to be reported.
constexpr std::int64_t kKeepUnused_ns = 3600LL * 1'000'000'000;
// A worker whose upload broke off tries for five minutes to continue it.
constexpr std::int64_t kKeepPartial_ns = 600LL * 1'000'000'000;

Result<FileUploads*> uploads_of(HttpCall& call) {
  if (call.services.files == nullptr) {
    return Error{ErrorCode::kNotFound, "this host has no store of files"};
  }
  if (!net::is_sha256(call.path[0])) {
    return Error{ErrorCode::kInvalidArgument,
                 "'" + printable(call.path[0]) + "' is not a SHA-256: 64 hexadecimal digits in lower case"};
  }
  return call.services.files.get();
}

// Removes the contents that no workflow refers to which this host still knows, and uploads that nobody continues.
Result<std::uint64_t> make_room(HttpServices& services) {
  std::set<std::string> used;
  ROTA_TRY(services.host.follower().read(
      [&](const fleet::State& state) {
        state.each_workflow([&](const fleet::Workflow& workflow) {
          for (const fleet::Task& task : workflow.tasks) {
            if (task.extra == nullptr) continue;
            for (const model::StoredFile& file : task.extra->outputs) used.insert(file.sha256);
          }
        });
      },
      0, std::chrono::seconds(0)));
  const std::int64_t now_ns = services.wall_ns();
  services.files->close_idle(FileUploads::kGivenUp);
  return fiber::blocking([&] {
    net::FileStore& store = services.files->store();
    return store.clean_partial(now_ns - kKeepPartial_ns) +
           store.clean([&](const std::string& sha256) { return used.contains(sha256); }, now_ns - kKeepUnused_ns);
  });
}

// `bytes=0-99`, `bytes=100-`, `bytes=-50`. A list of ranges, or something else, is ignored, as RFC 9110 allows.
struct Range {
  bool given = false;
  bool satisfiable = true;
  std::uint64_t first = 0;
  std::uint64_t last = 0;
};
Range range_of(const net::HttpRequest& request, std::uint64_t bytes) {
  const std::string* field = request.field("range");
  if (field == nullptr || !field->starts_with("bytes=") || field->find(',') != std::string::npos) return {};
  const std::string_view text = std::string_view(*field).substr(6);
  const std::size_t dash = text.find('-');
  if (dash == std::string_view::npos) return {};
  const auto number = [](std::string_view digits, std::uint64_t& out) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
    return error == std::errc() && end == digits.data() + digits.size() && !digits.empty();
  };
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  const bool has_first = number(text.substr(0, dash), first);
  const bool has_last = number(text.substr(dash + 1), last);
  if (!has_first && !has_last) return {};
  if (!has_first && (dash != 0 || !has_last)) return {};
  if (!has_last && dash + 1 != text.size()) return {};
  Range range{.given = true};
  if (!has_first) {  // The last bytes.
    range.satisfiable = last > 0 && bytes > 0;
    range.first = bytes - std::min(bytes, last);
    range.last = bytes - 1;
    return range;
  }
  if (has_last && last < first) return {};
  range.satisfiable = first < bytes;
  range.first = first;
  range.last = has_last ? std::min(last, bytes - 1) : bytes - 1;
  return range;
}

}  // namespace

namespace routes {

Result<net::HttpResponse> get_file(HttpCall& call) {
  ROTA_TRY_ASSIGN(FileUploads * uploads, uploads_of(call));
  const std::string sha256 = call.path[0];
  ROTA_TRY_ASSIGN(net::FileReader opened, fiber::blocking([&] { return uploads->store().read(sha256); }));
  const auto reader = std::make_shared<const net::FileReader>(std::move(opened));
  const std::uint64_t bytes = reader->bytes();
  const Range range = range_of(call.request, bytes);
  if (!range.satisfiable) {
    net::HttpResponse refused = problem_response(Error{
        ErrorCode::kInvalidArgument, "the content has " + std::to_string(bytes) + " bytes, and the range is beyond"}
                                                     .with("status", "416"));
    refused.fields.push_back({"Content-Range", "bytes */" + std::to_string(bytes)});
    return refused;
  }
  const std::uint64_t first = range.given ? range.first : 0;
  const std::uint64_t count = range.given ? range.last - range.first + 1 : bytes;
  net::HttpResponse response;
  response.status = range.given ? 206 : 200;
  response.fields = {{"Content-Type", "application/octet-stream"},
                     {"Accept-Ranges", "bytes"},
                     {"ETag", "\"" + sha256 + "\""},
                     {"Cache-Control", "private, immutable, max-age=31536000"}};
  if (range.given) {
    response.fields.push_back({"Content-Range", "bytes " + std::to_string(range.first) + "-" +
                                                    std::to_string(range.last) + "/" + std::to_string(bytes)});
  }
  response.stream_bytes = count;
  response.stream = [reader, first, count](net::HttpBodyWriter& writer) {
    for (std::uint64_t done = 0; done < count;) {
      const auto most = static_cast<std::size_t>(std::min<std::uint64_t>(net::kBlockBytes, count - done));
      const Result<std::string> block = fiber::blocking([&] { return reader->read(first + done, most); });
      if (!block.ok() || block->size() != most || !writer.write(*block).ok()) return false;
      done += most;
    }
    return true;
  };
  return response;
}

Result<net::HttpResponse> put_file(HttpCall& call) {
  ROTA_TRY_ASSIGN(FileUploads * uploads, uploads_of(call));
  const std::optional<std::uint64_t> bytes = call.integer("bytes");
  if (!bytes) return Error{ErrorCode::kInvalidArgument, "say how large the content is: ?bytes=1000&offset=0"};
  const std::uint64_t offset = call.integer("offset").value_or(0);
  Result<std::uint64_t> position = uploads->put(call.path[0], *bytes, offset, call.request.body);
  if (position.code() == ErrorCode::kNoSpace) {
    const Result<std::uint64_t> freed = make_room(call.services);
    if (freed.ok() && *freed > 0) {
      ROTA_LOG(kInfo, "files that no workflow refers to were removed: the store was full", {"bytes", *freed});
    }
    position = uploads->put(call.path[0], *bytes, offset, call.request.body);
    if (!position.ok()) ROTA_LOG(kWarn, "a file was refused", {"why", position.error().message});
  }
  if (!position.ok()) return position.error();
  return json_response(*position == *bytes ? 201 : 200, to_view_json(UploadView{.offset = *position, .bytes = *bytes}));
}

Result<net::HttpResponse> check_file(HttpCall& call) {
  ROTA_TRY_ASSIGN(FileUploads * uploads, uploads_of(call));
  const Result<void> good =
      fiber::blocking([&] { return uploads->store().verify(call.path[0], [] { return false; }); });
  if (!good.ok()) return good.error();
  return json_response(200, to_view_json(DoneView{}));
}

}  // namespace routes

}  // namespace rota::host
