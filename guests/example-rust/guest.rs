//! A whole guest of ABI v1 with Rust's standard library and nothing else. Its
//! cloud has two machines and a pool of addresses for load balancers. The
//! Makefile builds it.

// ---- the host --------------------------------------------------------------

/// The imports and the host calls made of them.
mod host {
    use super::{Code, Error, Writer};

    #[link(wasm_import_module = "ccm_v1")]
    extern "C" {
        fn req_read(off: u32, ptr: *mut u8, cap: u32) -> u32;
        fn resp_write(ptr: *const u8, len: u32);
        fn err_write(ptr: *const u8, len: u32);
        fn result_read(off: u32, ptr: *mut u8, cap: u32) -> u32;
        fn log(ptr: *const u8, len: u32) -> u64;
        fn store(ptr: *const u8, len: u32) -> u64; // a capability, listed in manifest.json
    }

    type Read = unsafe extern "C" fn(u32, *mut u8, u32) -> u32;

    fn read_all(read: Read, len: u32) -> Vec<u8> {
        let mut bytes = vec![0; len as usize];
        // The host writes at most len bytes, into a buffer of that size.
        let n = unsafe { read(0, bytes.as_mut_ptr(), len) };
        bytes.truncate(n as usize);
        bytes
    }

    pub(super) fn request(len: u32) -> Vec<u8> {
        read_all(req_read, len)
    }

    pub(super) fn respond(response: &Writer) {
        let bytes = response.bytes();
        unsafe { resp_write(bytes.as_ptr(), bytes.len() as u32) }
    }

    /// Writes an encoded ErrorDetail.
    pub(super) fn explain(detail: &[u8]) {
        unsafe { err_write(detail.as_ptr(), detail.len() as u32) }
    }

    /// A line of the host's log, at info (2) or error (4).
    pub(super) fn write_log(severity: u64, message: &str) {
        let mut line = Writer::new();
        line.number(1, severity);
        line.text(2, message);
        let bytes = line.bytes();
        unsafe { log(bytes.as_ptr(), bytes.len() as u32) };
    }

    /// Calls the store with a StoreRequest and returns the StoreResponse.
    pub(super) fn call_store(request: &Writer) -> Result<Vec<u8>, Error> {
        let bytes = request.bytes();
        let ended = unsafe { store(bytes.as_ptr(), bytes.len() as u32) };
        let code = Code((ended >> 32) as u32);
        let result = read_all(result_read, ended as u32);
        if code == Code::OK {
            return Ok(result);
        }
        Err(Error::said(code, result))
    }
}

// ---- errors ----------------------------------------------------------------

/// What `ccm_call` returns.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Code(u32);

impl Code {
    const OK: Code = Code(0);
    const INTERNAL: Code = Code(1);
    const INVALID: Code = Code(2);
    const NOT_FOUND: Code = Code(3);
    const INSTANCE_NOT_FOUND: Code = Code(4);
    const NOT_IMPLEMENTED: Code = Code(5);
    const CONFLICT: Code = Code(11);
    const TOO_LARGE: Code = Code(12);
}

struct Error {
    code: Code,
    /// An encoded ErrorDetail.
    detail: Vec<u8>,
}

impl Error {
    fn new(code: Code, message: &str) -> Error {
        let mut detail = Writer::new();
        detail.text(1, message);
        Error::said(code, detail.0)
    }

    /// With the detail of a failed host call.
    fn said(code: Code, detail: Vec<u8>) -> Error {
        Error { code, detail }
    }
}

fn invalid(message: &str) -> Error {
    Error::new(Code::INVALID, message)
}

type Result<T> = std::result::Result<T, Error>;

// ---- messages --------------------------------------------------------------

/// Writes a message of proto3.
#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn new() -> Writer {
        Writer::default()
    }

    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn varint(&mut self, mut v: u64) {
        while v >= 0x80 {
            self.0.push(v as u8 | 0x80);
            v >>= 7;
        }
        self.0.push(v as u8);
    }

    /// A number, bool or enum: wire type 0.
    fn number(&mut self, field: u32, v: u64) {
        self.varint(u64::from(field) << 3);
        self.varint(v);
    }

    /// Text or bytes: wire type 2.
    fn text(&mut self, field: u32, v: impl AsRef<[u8]>) {
        let v = v.as_ref();
        self.varint(u64::from(field) << 3 | 2);
        self.varint(v.len() as u64);
        self.0.extend_from_slice(v);
    }

    /// A message that `write` fills, also an empty one: wire type 2.
    fn message(&mut self, field: u32, write: impl FnOnce(&mut Writer)) {
        let mut inner = Writer::new();
        write(&mut inner);
        self.text(field, inner.bytes());
    }
}

/// Reads the fields of a message in their order.
#[derive(Clone, Copy)]
struct Reader<'a>(&'a [u8]);

/// A field's number, and its content where it is text, bytes or a message.
type Field<'a> = (u32, &'a [u8]);

impl<'a> Reader<'a> {
    fn varint(&mut self) -> Result<u64> {
        let mut v = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first().ok_or_else(malformed)?;
            self.0 = rest;
            v |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(v);
            }
        }
        Err(malformed())
    }

    fn take(&mut self, n: u64) -> Result<&'a [u8]> {
        if n > self.0.len() as u64 {
            return Err(malformed());
        }
        let (taken, rest) = self.0.split_at(n as usize);
        self.0 = rest;
        Ok(taken)
    }

    /// A group (wire types 3 and 4) is one field, without content.
    fn field(&mut self) -> Result<Field<'a>> {
        let mut open = 0; // groups: only counted, so nesting costs nothing
        loop {
            let tag = self.varint()?;
            let mut content: &[u8] = &[];
            match tag & 7 {
                0 => drop(self.varint()?),
                1 => drop(self.take(8)?),
                2 => {
                    let n = self.varint()?;
                    content = self.take(n)?;
                }
                3 => open += 1,
                4 if open > 0 => open -= 1,
                5 => drop(self.take(4)?),
                _ => return Err(malformed()),
            }
            if open == 0 {
                return Ok(((tag >> 3) as u32, content));
            }
        }
    }

    /// The last content of that field, empty when there is none. Text and bytes want
    /// this; a message that comes twice SHOULD be merged, but the host writes none.
    fn get(self, field: u32) -> Result<Reader<'a>> {
        let mut found: &[u8] = &[];
        for one in self {
            let (number, content) = one?;
            if number == field {
                found = content;
            }
        }
        Ok(Reader(found))
    }

    fn text(self, field: u32) -> Result<&'a str> {
        std::str::from_utf8(self.get(field)?.0).map_err(|_| malformed())
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Result<Field<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let one = self.field();
        if one.is_err() {
            self.0 = &[]; // what follows means nothing
        }
        Some(one)
    }
}

fn malformed() -> Error {
    invalid("the message is malformed")
}

// ---- loading ---------------------------------------------------------------

const NAME: &str = "tiny";
const VERSION: &str = "1.0.0";
const SCHEME: &str = "tiny://";

fn describe() -> Writer {
    let mut response = Writer::new();
    response.text(1, NAME);
    response.text(2, VERSION);
    response.text(3, NAME); // provider_name
    response
}

fn configure(request: Reader) -> Result<Writer> {
    if !request.get(1)?.0.is_empty() {
        return Err(invalid("tiny has no configuration, remove it"));
    }
    host::write_log(2, "configured");
    let mut response = Writer::new();
    response.number(1, 1); // accepted
    response.number(2, 1); // has_cluster_id: it makes nothing that could be another cluster's
    Ok(response)
}

fn probe() -> Writer {
    let mut response = done(); // ready
    response.text(2, "two machines");
    response
}

/// Field 1 is true: Done, and other answers without data.
fn done() -> Writer {
    let mut response = Writer::new();
    response.number(1, 1);
    response
}

// ---- instances -------------------------------------------------------------

/// Name and address.
type Machine = (&'static str, &'static str);

const MACHINES: [Machine; 2] = [("m1", "10.0.0.1"), ("m2", "10.0.0.2")];

/// An Existence, never 0: it must be said.
fn existence(exists: bool) -> u64 {
    if exists {
        1
    } else {
        2
    }
}

/// By the provider ID, or by the name where there is none.
fn find_machine(request: Reader) -> Result<Option<&'static Machine>> {
    let node = request.get(1)?;
    let (mut name, id) = (node.text(1)?, node.text(2)?);
    if !id.is_empty() {
        name = id.strip_prefix(SCHEME).ok_or_else(|| {
            invalid("the provider ID is not tiny://NAME: this node is of another cloud")
        })?;
    }
    Ok(MACHINES.iter().find(|(known, _)| *known == name))
}

fn instance_exists(request: Reader) -> Result<Writer> {
    let mut response = Writer::new();
    response.number(1, existence(find_machine(request)?.is_some()));
    Ok(response)
}

fn existing(request: Reader) -> Result<&'static Machine> {
    let no_machine = || Error::new(Code::INSTANCE_NOT_FOUND, "tiny has no such machine");
    find_machine(request)?.ok_or_else(no_machine)
}

fn instance_shutdown(request: Reader) -> Result<Writer> {
    existing(request)?;
    let mut response = Writer::new();
    response.number(1, 1); // on
    Ok(response)
}

fn instance_metadata(request: Reader) -> Result<Writer> {
    let (name, ip) = existing(request)?;
    let mut response = Writer::new();
    response.message(1, |metadata| {
        metadata.text(1, format!("{SCHEME}{name}"));
        metadata.text(2, "metal");
        metadata.message(3, |address| {
            address.number(1, 2); // type: internal IP
            address.text(2, ip);
        });
        metadata.text(4, "a"); // zone
    });
    Ok(response)
}

// ---- load balancers --------------------------------------------------------

// They are entries of the host's store: the key is the name, the value "v1 N",
// and the address POOL N. Every machine takes the traffic of every address, so
// they have no backends.
const POOL: &str = "198.51.100.";
const POOL_SIZE: u8 = 250;
const TRIES: usize = 5;

/// A Service as its load balancer needs it.
struct Service<'a> {
    message: Reader<'a>,
    /// The load balancer's.
    name: String,
}

impl<'a> Service<'a> {
    /// Of a LoadBalancerRequest, whose field 2 it is.
    fn of(request: Reader<'a>) -> Result<Service<'a>> {
        let message = request.get(2)?;
        let uid = message.text(3)?;
        if uid.is_empty() || uid.len() > 128 {
            let wrong = "the UID of the Service is empty or longer than 128 bytes";
            return Err(invalid(wrong));
        }
        let name = format!("lb-{uid}");
        Ok(Service { message, name })
    }

    /// What the cloud cannot do is an error: a user would rely on it.
    fn check(&self) -> Result<()> {
        let mut families = Vec::new();
        for field in self.message {
            let refusal = match field? {
                (9, ip) if !ip.is_empty() => {
                    "spec.loadBalancerIP: this cloud chooses the address; remove it"
                }
                (10, _) => {
                    "spec.loadBalancerSourceRanges: this cloud has no firewall for load balancers; remove them"
                }
                (17, b"RequireDualStack") => {
                    "spec.ipFamilyPolicy: this cloud has IPv4 only; write PreferDualStack"
                }
                (16, family) => {
                    families.push(family);
                    continue;
                }
                _ => continue,
            };
            return Err(invalid(refusal));
        }
        if !families.is_empty() && !families.contains(&b"IPv4".as_slice()) {
            let refusal = "spec.ipFamilies: this cloud has IPv4 only; add IPv4";
            return Err(invalid(refusal));
        }
        Ok(())
    }
}

/// The load balancers of the store at one moment, name and number.
struct Balancers {
    version: Vec<u8>,
    all: Vec<(Vec<u8>, u8)>,
}

impl Balancers {
    fn read() -> Result<Balancers> {
        let mut request = Writer::new();
        request.text(2, "lb-"); // prefix
        let response = host::call_store(&request)?;
        let mut read = Balancers {
            version: Vec::new(),
            all: Vec::new(),
        };
        for field in Reader(&response) {
            match field? {
                (1, version) => read.version = version.to_vec(),
                (2, entry) => {
                    let (key, value) = (Reader(entry).get(1)?, Reader(entry).text(2)?);
                    read.all.push((key.0.to_vec(), number_of(value)?));
                }
                _ => {}
            }
        }
        Ok(read)
    }

    fn number(&self, name: &str) -> Option<u8> {
        let one = self.all.iter().find(|(key, _)| key == name.as_bytes());
        one.map(|&(_, number)| number)
    }

    fn free(&self) -> Option<u8> {
        (1..=POOL_SIZE).find(|n| self.all.iter().all(|(_, taken)| taken != n))
    }

    /// Writes a load balancer with its number, or removes it. False: the store has
    /// changed since it was read.
    fn write(&self, name: &str, number: Option<u8>) -> Result<bool> {
        let mut request = Writer::new();
        request.message(1, |write| {
            write.text(1, &self.version);
            match number {
                None => write.text(3, name), // delete
                Some(number) => write.message(2, |entry| {
                    entry.text(1, name);
                    entry.text(2, format!("v1 {number}"));
                }),
            }
        });
        match host::call_store(&request) {
            Err(e) if e.code == Code::CONFLICT => Ok(false),
            written => written.map(|_| true),
        }
    }
}

fn number_of(value: &str) -> Result<u8> {
    let number = value.strip_prefix("v1 ").and_then(|n| n.parse().ok());
    let foreign = "the store has an entry of another version of tiny: go back to that version";
    number
        .filter(|n| (1..=POOL_SIZE).contains(n))
        .ok_or_else(|| Error::new(Code::INTERNAL, foreign))
}

fn restless() -> Error {
    Error::new(Code::INTERNAL, "the store changes all the time")
}

/// Field 1 of LoadBalancerEnsureResponse, field 2 of LoadBalancerGetResponse.
fn put_status(response: &mut Writer, field: u32, number: u8) {
    response.message(field, |status| {
        status.message(1, |ingress| {
            ingress.text(1, format!("{POOL}{number}"));
            ingress.text(3, "VIP");
        });
    });
}

fn lb_get(request: Reader) -> Result<Writer> {
    let service = Service::of(request)?;
    let number = Balancers::read()?.number(&service.name);
    let mut response = Writer::new();
    response.number(1, existence(number.is_some()));
    if let Some(number) = number {
        put_status(&mut response, 2, number);
    }
    Ok(response)
}

fn lb_name(request: Reader) -> Result<Writer> {
    let mut response = Writer::new();
    response.text(1, Service::of(request)?.name);
    Ok(response)
}

fn lb_ensure(request: Reader) -> Result<Writer> {
    let service = Service::of(request)?;
    service.check()?;
    for _ in 0..TRIES {
        let balancers = Balancers::read()?;
        if let Some(number) = balancers.number(&service.name) {
            let mut response = Writer::new();
            put_status(&mut response, 1, number);
            return Ok(response);
        }
        let full = || {
            Error::new(
                Code::TOO_LARGE,
                "every address of tiny has a Service: delete one",
            )
        };
        balancers.write(&service.name, Some(balancers.free().ok_or_else(full)?))?;
    }
    Err(restless())
}

fn lb_update(request: Reader) -> Result<Writer> {
    let service = Service::of(request)?;
    let number = Balancers::read()?.number(&service.name);
    let gone = || Error::new(Code::NOT_FOUND, "tiny has no such load balancer");
    number.map(|_| done()).ok_or_else(gone)
}

fn lb_delete(request: Reader) -> Result<Writer> {
    let service = Service::of(request)?;
    for _ in 0..TRIES {
        let balancers = Balancers::read()?;
        if balancers.number(&service.name).is_none() || balancers.write(&service.name, None)? {
            return Ok(done());
        }
    }
    Err(restless())
}

// ---- the exports -----------------------------------------------------------

fn run(op: u32, request: Reader) -> Result<Writer> {
    match op {
        1 => Ok(describe()),
        2 => configure(request),
        3 => Ok(probe()),
        10 => instance_exists(request),
        11 => instance_shutdown(request),
        12 => instance_metadata(request),
        20 => lb_get(request),
        21 => lb_name(request),
        22 => lb_ensure(request),
        23 => lb_update(request),
        24 => lb_delete(request),
        _ => Err(Error::new(
            Code::NOT_IMPLEMENTED,
            "tiny does not have this op",
        )),
    }
}

#[no_mangle]
pub extern "C" fn _initialize() {
    // The host learns of a panic by a trap, which has no words.
    std::panic::set_hook(Box::new(|panic| host::write_log(4, &panic.to_string())));
}

#[no_mangle]
pub extern "C" fn ccm_abi_v1() {}

#[no_mangle]
pub extern "C" fn ccm_call(op: u32, request_length: u32) -> u32 {
    let request = host::request(request_length);
    match run(op, Reader(&request)) {
        Ok(response) => {
            host::respond(&response);
            Code::OK.0
        }
        Err(error) => {
            host::explain(&error.detail);
            error.code.0
        }
    }
}
