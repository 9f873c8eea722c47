// A whole guest of ABI v1 without any library. Its cloud has two machines. The
// Makefile builds it.
#include <stdint.h>

#define IMPORT(name) __attribute__((import_module("ccm_v1"), import_name(name))) extern
#define EXPORT(name) __attribute__((export_name(name)))

IMPORT("req_read") uint32_t req_read(uint32_t off, void *ptr, uint32_t cap);
IMPORT("resp_write") void resp_write(const void *ptr, uint32_t len);
IMPORT("err_write") void err_write(const void *ptr, uint32_t len);
IMPORT("log") uint64_t host_log(const void *ptr, uint32_t len);

enum { OK = 0, INVALID = 2, INSTANCE_NOT_FOUND = 4, NOT_IMPLEMENTED = 5, TOO_LARGE = 12 };
enum { DESCRIBE = 1, CONFIGURE, PROBE, INSTANCE_EXISTS = 10, INSTANCE_SHUTDOWN, INSTANCE_METADATA };

// ---- writing messages ------------------------------------------------------

typedef struct { uint8_t bytes[512]; uint32_t len; } buffer;

static void put(buffer *b, const void *data, uint32_t len) {
  for (uint32_t i = 0; i < len && b->len < sizeof b->bytes; i++)
    b->bytes[b->len++] = ((const uint8_t *)data)[i];
}

static void put_varint(buffer *b, uint64_t v) {
  for (; v >= 0x80; v >>= 7) put(b, &(uint8_t){(uint8_t)v | 0x80}, 1);
  put(b, &(uint8_t){(uint8_t)v}, 1);
}

// A field that is a number: wire type 0.
static void put_number(buffer *b, uint32_t field, uint64_t v) {
  put_varint(b, field << 3);
  put_varint(b, v);
}

// A field that is text, bytes or a message: wire type 2.
static void put_bytes(buffer *b, uint32_t field, const void *data, uint32_t len) {
  put_varint(b, field << 3 | 2);
  put_varint(b, len);
  put(b, data, len);
}

static uint32_t length(const char *s) {
  uint32_t n = 0;
  while (s[n]) n++;
  return n;
}

static void put_text(buffer *b, uint32_t field, const char *s) { put_bytes(b, field, s, length(s)); }

// ---- reading messages ------------------------------------------------------

typedef struct { const uint8_t *at, *end; } reader;

static int get_varint(reader *r, uint64_t *v) {
  *v = 0;
  for (int shift = 0; shift < 64 && r->at < r->end; shift += 7) {
    uint8_t byte = *r->at++;
    *v |= (uint64_t)(byte & 0x7f) << shift;
    if (byte < 0x80) return 1;
  }
  return 0;
}

// The next field. For wire type 2 value is its content. 0 at the end or when
// the message is malformed; then at != end.
static int get_field(reader *r, uint32_t *field, reader *value) {
  uint64_t tag, n;
  if (r->at == r->end || !get_varint(r, &tag)) return 0;
  *field = (uint32_t)(tag >> 3);
  *value = (reader){0, 0};
  switch (tag & 7) {
  case 0: return get_varint(r, &n);
  case 1: n = 8; break;
  case 2: if (!get_varint(r, &n)) return 0; break;
  case 5: n = 4; break;
  default: return 0;
  }
  if (n > (uint64_t)(r->end - r->at)) return 0;
  if ((tag & 7) == 2) *value = (reader){r->at, r->at + n};
  r->at += n;
  return 1;
}

// The last field of that number, as proto3 wants; empty when there is none.
static int find(reader r, uint32_t want, reader *found) {
  uint32_t field;
  reader value;
  *found = (reader){0, 0};
  while (get_field(&r, &field, &value))
    if (field == want) *found = value;
  return r.at == r.end;
}

static int begins(reader r, const char *s) {
  uint32_t n = length(s);
  if ((uint32_t)(r.end - r.at) < n) return 0;
  for (uint32_t i = 0; i < n; i++)
    if (r.at[i] != (uint8_t)s[i]) return 0;
  return 1;
}

static int is(reader r, const char *s) { return (uint32_t)(r.end - r.at) == length(s) && begins(r, s); }

// ---- the provider ----------------------------------------------------------

typedef struct { const char *name, *id, *address; } machine;

static const machine machines[] = {
  {"m1", "tiny://m1", "10.0.0.1"},
  {"m2", "tiny://m2", "10.0.0.2"},
};

static uint8_t request[64 << 10];

static uint32_t answer(const buffer *b) {
  resp_write(b->bytes, b->len);
  return OK;
}

static uint32_t fail(uint32_t code, const char *message) {
  buffer detail;
  detail.len = 0;
  put_text(&detail, 1, message);
  err_write(detail.bytes, detail.len);
  return code;
}

static uint32_t describe(buffer *b) {
  put_text(b, 1, "tiny");
  put_text(b, 2, "1.0.0");
  put_text(b, 3, "tiny");
  return answer(b);
}

static uint32_t configure(buffer *b, reader config) {
  if (config.at != config.end) return fail(INVALID, "tiny has no configuration, remove it");
  buffer line;
  line.len = 0;
  put_number(&line, 1, 2); // severity: info
  put_text(&line, 2, "configured");
  host_log(line.bytes, line.len);
  put_number(b, 1, 1); // accepted
  put_number(b, 2, 1); // has_cluster_id: it makes nothing that could be another cluster's
  return answer(b);
}

static uint32_t probe(buffer *b) {
  put_number(b, 1, 1); // ready
  put_text(b, 2, "two machines");
  return answer(b);
}

static uint32_t metadata(buffer *b, const machine *found) {
  buffer address, m;
  address.len = m.len = 0;
  put_number(&address, 1, 2); // type: internal IP
  put_text(&address, 2, found->address);
  put_text(&m, 1, found->id);
  put_text(&m, 2, "metal");
  put_bytes(&m, 3, address.bytes, address.len);
  put_text(&m, 4, "a");
  put_bytes(b, 1, m.bytes, m.len);
  return answer(b);
}

// By the provider ID, or by the name where there is none. 0: no such machine.
static const machine *lookup(reader name, reader id) {
  for (uint32_t i = 0; i < sizeof machines / sizeof *machines; i++)
    if (id.at == id.end ? is(name, machines[i].name) : is(id, machines[i].id)) return &machines[i];
  return 0;
}

// InstanceRequest.node is field 1; Node.name is field 1, Node.provider_id field 2.
static uint32_t instance(uint32_t op, buffer *b, reader req) {
  reader node, name, id;
  if (!find(req, 1, &node) || !find(node, 1, &name) || !find(node, 2, &id)) return fail(INVALID, "malformed InstanceRequest");
  if (id.at != id.end && !begins(id, "tiny://")) return fail(INVALID, "the provider ID is not tiny://NAME: this node is of another cloud");
  const machine *found = lookup(name, id);
  if (op == INSTANCE_EXISTS) {
    put_number(b, 1, found ? 1 : 2); // never 0: it must be said
    return answer(b);
  }
  if (!found) return fail(INSTANCE_NOT_FOUND, "tiny has no such machine");
  if (op == INSTANCE_METADATA) return metadata(b, found);
  put_number(b, 1, 1); // on
  return answer(b);
}

EXPORT("_initialize") void initialize(void) {}

EXPORT("ccm_abi_v1") void ccm_abi_v1(void) {}

EXPORT("ccm_call") uint32_t ccm_call(uint32_t op, uint32_t req_len) {
  buffer b;
  b.len = 0;
  reader config;
  if (req_len > sizeof request) return fail(TOO_LARGE, "the request is larger than 64 KiB");
  reader req = {request, request + req_read(0, request, req_len)};
  switch (op) {
  case DESCRIBE: return describe(&b);
  case CONFIGURE: return find(req, 1, &config) ? configure(&b, config) : fail(INVALID, "malformed ConfigureRequest");
  case PROBE: return probe(&b);
  case INSTANCE_EXISTS:
  case INSTANCE_SHUTDOWN:
  case INSTANCE_METADATA: return instance(op, &b, req);
  }
  return fail(NOT_IMPLEMENTED, "tiny does not have this op");
}
