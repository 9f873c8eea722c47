// A whole guest of ABI v1 without any library. Its cloud has two machines and a
// pool of addresses for load balancers. The Makefile builds it.
#include <stdint.h>

#define IMPORT(name) __attribute__((import_module("ccm_v1"), import_name(name))) extern
#define EXPORT(name) __attribute__((export_name(name)))

IMPORT("req_read") uint32_t req_read(uint32_t off, void *ptr, uint32_t cap);
IMPORT("resp_write") void resp_write(const void *ptr, uint32_t len);
IMPORT("err_write") void err_write(const void *ptr, uint32_t len);
IMPORT("result_read") uint32_t result_read(uint32_t off, void *ptr, uint32_t cap);
IMPORT("log") uint64_t host_log(const void *ptr, uint32_t len);
IMPORT("store") uint64_t host_store(const void *ptr, uint32_t len); // a capability, listed in manifest.json

enum { OK, INTERNAL, INVALID, NOT_FOUND, INSTANCE_NOT_FOUND, NOT_IMPLEMENTED, CONFLICT = 11, TOO_LARGE };
enum { DESCRIBE = 1, CONFIGURE, PROBE, INSTANCE_EXISTS = 10, INSTANCE_SHUTDOWN, INSTANCE_METADATA };
enum { LB_GET = 20, LB_NAME, LB_ENSURE, LB_UPDATE, LB_DELETE };
enum { EXISTS = 1, DOES_NOT_EXIST };

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

static void put_message(buffer *b, uint32_t field, const buffer *m) { put_bytes(b, field, m->bytes, m->len); }

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

// The next field; a group (wire types 3 and 4) is one. For wire type 2 value is
// its content. 0 at the end or when the message is malformed; then at != end.
static int get_field(reader *r, uint32_t *field, reader *value) {
  uint64_t tag, number, open = 0; // groups: only counted, so nesting costs nothing
  if (r->at == r->end) return 0;
  do {
    uint64_t n = 0;
    int ok = get_varint(r, &tag);
    switch (tag & 7) {
    case 0: ok &= get_varint(r, &number); break;
    case 1: n = 8; break;
    case 2: ok &= get_varint(r, &n); break;
    case 3: open++; break;
    case 4: ok &= open-- > 0; break;
    case 5: n = 4; break;
    default: ok = 0;
    }
    if (!ok || n > (uint64_t)(r->end - r->at)) return r->at = 0, 0;
    *value = (tag & 7) == 2 ? (reader){r->at, r->at + n} : (reader){0, 0};
    r->at += n;
  } while (open);
  *field = (uint32_t)(tag >> 3);
  return 1;
}

// The last field of that number, empty when there is none. Text and bytes want
// this; a message that comes twice SHOULD be merged, but the host writes none.
static int find(reader r, uint32_t want, reader *found) {
  uint32_t field;
  reader value;
  *found = (reader){0, 0};
  while (get_field(&r, &field, &value))
    if (field == want) *found = value;
  return r.at == r.end;
}

static uint32_t size(reader r) { return (uint32_t)(r.end - r.at); }

static int same(reader a, const void *data, uint32_t len) {
  if (size(a) != len) return 0;
  for (uint32_t i = 0; i < len; i++)
    if (a.at[i] != ((const uint8_t *)data)[i]) return 0;
  return 1;
}

static int begins(reader r, const char *s) {
  uint32_t n = length(s);
  return size(r) >= n && same((reader){r.at, r.at + n}, s, n);
}

static int is(reader r, const char *s) { return same(r, s, length(s)); }

// ---- the provider ----------------------------------------------------------

typedef struct { const char *name, *id, *address; } machine;

static const machine machines[] = {
  {"m1", "tiny://m1", "10.0.0.1"},
  {"m2", "tiny://m2", "10.0.0.2"},
};

static uint8_t request[1 << 20], result[256 << 10];

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

static uint32_t done(buffer *b) {
  put_number(b, 1, 1);
  return answer(b);
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
  put_message(&m, 3, &address);
  put_text(&m, 4, "a");
  put_message(b, 1, &m);
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
    put_number(b, 1, found ? EXISTS : DOES_NOT_EXIST); // never 0: it must be said
    return answer(b);
  }
  if (!found) return fail(INSTANCE_NOT_FOUND, "tiny has no such machine");
  if (op == INSTANCE_METADATA) return metadata(b, found);
  put_number(b, 1, 1); // on
  return answer(b);
}

// ---- load balancers --------------------------------------------------------

// They are entries of the host's store: the key is the name, the value "v1 N",
// and the address POOL N. Every machine takes the traffic of every address, so
// they have no backends.
#define POOL "198.51.100."
enum { POOL_SIZE = 250, TRIES = 5 };

typedef struct {
  buffer version;
  uint32_t number; // of the load balancer itself, 0: it is not there
  uint8_t taken[POOL_SIZE + 1];
} view;

// The number in a value, 0 for any other text.
static uint32_t number_of(reader value) {
  uint32_t n = 0;
  if (!begins(value, "v1 ")) return 0;
  for (value.at += 3; value.at < value.end && n <= POOL_SIZE; value.at++) {
    if (*value.at < '0' || *value.at > '9') return 0;
    n = n * 10 + (*value.at - '0');
  }
  return n <= POOL_SIZE ? n : 0;
}

static void put_decimal(buffer *b, uint32_t n) {
  if (n >= 10) put_decimal(b, n / 10);
  put(b, &(uint8_t){(uint8_t)('0' + n % 10)}, 1);
}

// Calls the store. With a code other than OK the result is an ErrorDetail.
static uint32_t store(const buffer *req, reader *got) {
  uint64_t ended = host_store(req->bytes, req->len);
  *got = (reader){result, result};
  if ((uint32_t)ended > sizeof result) return TOO_LARGE;
  got->end += result_read(0, result, sizeof result);
  return (uint32_t)(ended >> 32);
}

// Fails as the host did, with its words.
static uint32_t fail_as(uint32_t code, reader detail) {
  if (!size(detail)) return fail(code, "the store does not answer, or with more than 256 KiB");
  err_write(detail.at, size(detail));
  return code;
}

// Reads all load balancers, and looks for one. An error is written already.
static uint32_t look(view *v, const buffer *name) {
  buffer req;
  req.len = v->version.len = v->number = 0;
  for (uint32_t i = 0; i <= POOL_SIZE; i++) v->taken[i] = 0;
  put_text(&req, 2, "lb-"); // prefix
  reader got, entry, key, value;
  uint32_t field, code = store(&req, &got);
  if (code) return fail_as(code, got);
  while (get_field(&got, &field, &entry)) {
    if (field == 1) put(&v->version, entry.at, size(entry));
    if (field != 2) continue;
    if (!find(entry, 1, &key) || !find(entry, 2, &value)) return fail(INTERNAL, "malformed StoreEntry");
    uint32_t n = number_of(value);
    if (!n) return fail(INTERNAL, "the store has an entry of another version of tiny: go back to that version");
    v->taken[n] = 1;
    if (same(key, name->bytes, name->len)) v->number = n;
  }
  return got.at == got.end ? OK : fail(INTERNAL, "malformed StoreResponse");
}

// Writes a load balancer with that number, or with 0 removes it.
static uint32_t change(const view *v, const buffer *name, uint32_t number, reader *got) {
  buffer req, write, entry, value;
  req.len = write.len = entry.len = value.len = 0;
  put_message(&write, 1, &v->version);
  if (number) {
    put(&value, "v1 ", 3);
    put_decimal(&value, number);
    put_message(&entry, 1, name);
    put_message(&entry, 2, &value);
    put_message(&write, 2, &entry);
  } else {
    put_message(&write, 3, name); // delete
  }
  put_message(&req, 1, &write);
  return store(&req, got);
}

// Field 1 of LoadBalancerEnsureResponse, field 2 of LoadBalancerGetResponse.
static void put_status(buffer *b, uint32_t field, uint32_t number) {
  buffer address, ingress, status;
  address.len = ingress.len = status.len = 0;
  put(&address, POOL, length(POOL));
  put_decimal(&address, number);
  put_message(&ingress, 1, &address);
  put_text(&ingress, 3, "VIP");
  put_message(&status, 1, &ingress);
  put_message(b, field, &status);
}

// What the cloud cannot do is an error: a user would rely on it. 0: it can all.
static const char *refusal(reader service) {
  uint32_t field;
  reader value;
  int families = 0, v4 = 0;
  while (get_field(&service, &field, &value)) { // numbers of Service's fields
    if (field == 9 && size(value)) return "spec.loadBalancerIP: this cloud chooses the address; remove it";
    if (field == 10) return "spec.loadBalancerSourceRanges: this cloud has no firewall for load balancers; remove them";
    if (field == 16) { families = 1; v4 |= is(value, "IPv4"); }
    if (field == 17 && is(value, "RequireDualStack")) return "spec.ipFamilyPolicy: this cloud has IPv4 only; write PreferDualStack";
  }
  return families && !v4 ? "spec.ipFamilies: this cloud has IPv4 only; add IPv4" : 0;
}

static uint32_t lb_ensure(buffer *b, view *v, const buffer *name, reader service) {
  const char *refused = refusal(service);
  if (refused) return fail(INVALID, refused);
  for (int i = 0; i < TRIES; i++) {
    reader got;
    uint32_t n = 1, code = look(v, name);
    if (code) return code;
    if (v->number) {
      put_status(b, 1, v->number);
      return answer(b);
    }
    while (n <= POOL_SIZE && v->taken[n]) n++;
    if (n > POOL_SIZE) return fail(TOO_LARGE, "every address of tiny has a Service: delete one");
    code = change(v, name, n, &got); // with CONFLICT somebody else wrote meanwhile
    if (code && code != CONFLICT) return fail_as(code, got);
  }
  return fail(INTERNAL, "the store changes all the time");
}

static uint32_t lb_delete(buffer *b, view *v, const buffer *name) {
  for (int i = 0; i < TRIES; i++) {
    reader got;
    uint32_t code = look(v, name);
    if (code) return code;
    if (!v->number) return done(b);
    code = change(v, name, 0, &got);
    if (code && code != CONFLICT) return fail_as(code, got);
  }
  return fail(INTERNAL, "the store changes all the time");
}

// LoadBalancerRequest.service is field 2, Service.uid field 3.
static uint32_t balancer(uint32_t op, buffer *b, reader req) {
  reader service, uid;
  view v;
  buffer name;
  name.len = 0;
  if (!find(req, 2, &service) || !find(service, 3, &uid)) return fail(INVALID, "malformed LoadBalancerRequest");
  if (size(uid) == 0 || size(uid) > 128) return fail(INVALID, "the UID of the Service is empty or longer than 128 bytes");
  put(&name, "lb-", 3);
  put(&name, uid.at, size(uid));
  switch (op) {
  case LB_NAME: put_message(b, 1, &name); return answer(b);
  case LB_ENSURE: return lb_ensure(b, &v, &name, service);
  case LB_DELETE: return lb_delete(b, &v, &name);
  }
  uint32_t code = look(&v, &name);
  if (code) return code;
  if (op == LB_UPDATE) return v.number ? done(b) : fail(NOT_FOUND, "tiny has no such load balancer");
  put_number(b, 1, v.number ? EXISTS : DOES_NOT_EXIST); // lb_get
  if (v.number) put_status(b, 2, v.number);
  return answer(b);
}

// ---- the exports -----------------------------------------------------------

EXPORT("_initialize") void initialize(void) {}
EXPORT("ccm_abi_v1") void ccm_abi_v1(void) {}

EXPORT("ccm_call") uint32_t ccm_call(uint32_t op, uint32_t req_len) {
  buffer b;
  b.len = 0;
  reader config;
  if (req_len > sizeof request) return fail(TOO_LARGE, "the request is larger than 1 MiB");
  reader req = {request, request + req_read(0, request, req_len)};
  switch (op) {
  case DESCRIBE: return describe(&b);
  case CONFIGURE: return find(req, 1, &config) ? configure(&b, config) : fail(INVALID, "malformed ConfigureRequest");
  case PROBE: return probe(&b);
  case INSTANCE_EXISTS: case INSTANCE_SHUTDOWN:
  case INSTANCE_METADATA: return instance(op, &b, req);
  case LB_GET: case LB_NAME: case LB_ENSURE: case LB_UPDATE:
  case LB_DELETE: return balancer(op, &b, req);
  }
  return fail(NOT_IMPLEMENTED, "tiny does not have this op");
}
