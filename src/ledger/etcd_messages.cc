#include "ledger/etcd_messages.h"

#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>
#include <type_traits>
#include <utility>

namespace rota::ledger::kv {

namespace {

using protozero::pbf_wire_type;
using protozero::pbf_writer;

// protozero asserts that a field has the type that is asked for; what a server sends may have any. Here a wrong type is
// an exception, like everything else that is wrong with a message.
class Reader : public protozero::pbf_reader {
 public:
  using pbf_reader::pbf_reader;
  explicit Reader(pbf_reader reader) : pbf_reader(reader) {}

  std::int64_t get_int64() {
    require(pbf_wire_type::varint);
    return pbf_reader::get_int64();
  }
  std::int32_t get_enum() {
    require(pbf_wire_type::varint);
    return pbf_reader::get_enum();
  }
  bool get_bool() { return get_int64() != 0; }
  protozero::data_view get_view() {
    require(pbf_wire_type::length_delimited);
    return pbf_reader::get_view();
  }
  Reader get_message() { return Reader(pbf_reader(get_view())); }

 private:
  void require(pbf_wire_type type) const {
    if (wire_type() != type) throw protozero::unknown_pbf_wire_type_exception();
  }
};

// The numbers are those of rpc.proto and kv.proto in etcd 3.4.

void write_key_range(pbf_writer& out, const KeyRange& range) {
  out.add_bytes(1, range.key);
  if (!range.end.empty()) out.add_bytes(2, range.end);
}

void write_range(pbf_writer& out, const RangeRequest& request) {
  write_key_range(out, request.range);
  if (request.limit != 0) out.add_int64(3, request.limit);
  if (request.revision != 0) out.add_int64(4, request.revision);
  if (request.keys_only) out.add_bool(8, true);
}

void write_compare(pbf_writer& out, const Compare& compare) {
  out.add_enum(1, static_cast<std::int32_t>(compare.relation));
  out.add_enum(2, static_cast<std::int32_t>(compare.target));
  out.add_bytes(3, compare.key);
  // A member of a oneof: it is written even if it is 0.
  switch (compare.target) {
    case Compare::Target::kVersion:
      out.add_int64(4, compare.number);
      break;
    case Compare::Target::kCreateRevision:
      out.add_int64(5, compare.number);
      break;
    case Compare::Target::kModRevision:
      out.add_int64(6, compare.number);
      break;
    case Compare::Target::kValue:
      out.add_bytes(7, compare.value);
      break;
  }
}

void write_op(pbf_writer& out, const Op& op) {
  if (const auto* range = std::get_if<RangeRequest>(&op)) {
    pbf_writer inner(out, 1);
    write_range(inner, *range);
  } else if (const auto* put = std::get_if<Put>(&op)) {
    pbf_writer inner(out, 2);
    inner.add_bytes(1, put->key);
    inner.add_bytes(2, put->value);
    if (put->lease != 0) inner.add_int64(3, put->lease);
  } else {
    pbf_writer inner(out, 3);
    write_key_range(inner, std::get<DeleteRange>(op).range);
  }
}

std::string text(const protozero::data_view& view) { return {view.data(), view.size()}; }

KeyValue read_kv(Reader in) {
  KeyValue kv;
  while (in.next()) {
    switch (in.tag()) {
      case 1:
        kv.key = text(in.get_view());
        break;
      case 2:
        kv.create_revision = in.get_int64();
        break;
      case 3:
        kv.mod_revision = in.get_int64();
        break;
      case 4:
        kv.version = in.get_int64();
        break;
      case 5:
        kv.value = text(in.get_view());
        break;
      case 6:
        kv.lease = in.get_int64();
        break;
      default:
        in.skip();
    }
  }
  return kv;
}

std::int64_t read_header(Reader in) {
  std::int64_t revision = 0;
  while (in.next()) {
    if (in.tag() == 3) {
      revision = in.get_int64();
    } else {
      in.skip();
    }
  }
  return revision;
}

RangeResult read_range(Reader in) {
  RangeResult result;
  while (in.next()) {
    switch (in.tag()) {
      case 1:
        result.revision = read_header(in.get_message());
        break;
      case 2:
        result.kvs.push_back(read_kv(in.get_message()));
        break;
      case 3:
        result.more = in.get_bool();
        break;
      default:
        in.skip();
    }
  }
  return result;
}

OpResult read_op(Reader in) {
  OpResult result;
  while (in.next()) {
    if (in.tag() == 1) {
      result.range = read_range(in.get_message());
    } else if (in.tag() == 3) {
      Reader inner = in.get_message();
      while (inner.next()) {
        if (inner.tag() == 2) {
          result.deleted = inner.get_int64();
        } else {
          inner.skip();
        }
      }
    } else {
      in.skip();
    }
  }
  return result;
}

Event read_event(Reader in) {
  Event event;
  while (in.next()) {
    switch (in.tag()) {
      case 1:
        event.deleted = in.get_enum() == 1;
        break;
      case 2:
        event.kv = read_kv(in.get_message());
        break;
      default:
        in.skip();
    }
  }
  return event;
}

// protozero reports malformed bytes, and a field of another type than expected, by exceptions.
template <class Read>
auto decode(std::string_view message, const char* what, Read&& read) -> Result<std::invoke_result_t<Read, Reader>> {
  try {
    return read(Reader(message.data(), message.size()));
  } catch (const protozero::exception& error) {
    return Error{ErrorCode::kCorrupt, std::string("etcd's ") + what + " cannot be decoded: " + error.what()};
  }
}

}  // namespace

std::string encode_range(const RangeRequest& request) {
  std::string bytes;
  pbf_writer out(bytes);
  write_range(out, request);
  return bytes;
}

std::string encode_txn(const Txn& txn) {
  std::string bytes;
  pbf_writer out(bytes);
  for (const Compare& compare : txn.compares) {
    pbf_writer inner(out, 1);
    write_compare(inner, compare);
  }
  for (const Op& op : txn.success) {
    pbf_writer inner(out, 2);
    write_op(inner, op);
  }
  for (const Op& op : txn.failure) {
    pbf_writer inner(out, 3);
    write_op(inner, op);
  }
  return bytes;
}

std::string encode_lease_grant(std::chrono::seconds ttl) { return encode_lease_id(ttl.count()); }

std::string encode_lease_id(std::int64_t lease) {
  std::string bytes;
  pbf_writer(bytes).add_int64(1, lease);
  return bytes;
}

std::string encode_watch(const KeyRange& range, std::int64_t revision) {
  std::string bytes;
  pbf_writer out(bytes);
  pbf_writer inner(out, 1);
  write_key_range(inner, range);
  if (revision != 0) inner.add_int64(3, revision);
  inner.commit();
  return bytes;
}

std::string encode_compaction(std::int64_t revision) { return encode_lease_id(revision); }

Result<RangeResult> decode_range(std::string_view message) { return decode(message, "RangeResponse", read_range); }

Result<TxnResult> decode_txn(std::string_view message) {
  return decode(message, "TxnResponse", [](Reader in) {
    TxnResult result;
    while (in.next()) {
      switch (in.tag()) {
        case 1:
          result.revision = read_header(in.get_message());
          break;
        case 2:
          result.succeeded = in.get_bool();
          break;
        case 3:
          result.results.push_back(read_op(in.get_message()));
          break;
        default:
          in.skip();
      }
    }
    return result;
  });
}

Result<Lease> decode_lease(std::string_view message) {
  return decode(message, "lease response", [](Reader in) {
    Lease lease;
    while (in.next()) {
      switch (in.tag()) {
        case 2:
          lease.id = in.get_int64();
          break;
        case 3:
          lease.ttl = std::chrono::seconds(in.get_int64());
          break;
        default:
          in.skip();
      }
    }
    return lease;
  });
}

Result<WatchResponse> decode_watch(std::string_view message) {
  return decode(message, "WatchResponse", [](Reader in) {
    WatchResponse response;
    while (in.next()) {
      switch (in.tag()) {
        case 1:
          response.revision = read_header(in.get_message());
          break;
        case 3:
          response.created = in.get_bool();
          break;
        case 4:
          response.canceled = in.get_bool();
          break;
        case 5:
          response.compact_revision = in.get_int64();
          break;
        case 6:
          response.cancel_reason = text(in.get_view());
          break;
        case 11:
          response.events.push_back(read_event(in.get_message()));
          break;
        default:
          in.skip();
      }
    }
    return response;
  });
}

Error etcd_error(Error error) {
  const auto says = [&](const char* words) { return error.message.find(words) != std::string::npos; };
  if (says("database space exceeded")) {
    error.code = ErrorCode::kNoSpace;
    error.message +=
        "; etcd's quota is used up: compact and defragment it, or raise --quota-backend-bytes, and then "
        "run `etcdctl alarm disarm`";
  } else if (says("revision has been compacted")) {
    error.code = ErrorCode::kNotFound;
    error.details.push_back({"compacted", "unknown"});
  } else if (says("request is too large") || says("received message larger than max")) {
    error.code = ErrorCode::kTooLarge;
  } else if (says("too many requests")) {
    error.code = ErrorCode::kOverloaded;
  } else if (error.code == ErrorCode::kInternal && error.detail("grpc") != nullptr) {
    // Unknown and Internal: raised for example while a member stops. Nothing tells whether the request was executed.
    error.code = ErrorCode::kUnavailable;
  }
  return error;
}

}  // namespace rota::ledger::kv
