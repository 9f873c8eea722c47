package validation

import (
	"net/netip"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/addresses"
)

// maxAddresses bounds each list of addresses.
const maxAddresses = 64

func validateAddresses(a v1alpha1.Addresses, path *field.Path) field.ErrorList {
	return append(addressList(path.Child("allow"), a.Allow), addressList(path.Child("deny"), a.Deny)...)
}

func addressList(path *field.Path, entries []string) (errs field.ErrorList) {
	if len(entries) > maxAddresses {
		return field.ErrorList{field.TooMany(path, len(entries), maxAddresses)}
	}
	for i, entry := range entries {
		errs = append(errs, networkOrName(path.Index(i), entry)...)
	}
	return errs
}

// networkOrName accepts the syntax of package addresses, but only names that a
// load balancer may have.
func networkOrName(path *field.Path, entry string) field.ErrorList {
	if strings.Contains(entry, "/") {
		return validateCIDR(path, entry)
	}
	if _, err := netip.ParseAddr(entry); err == nil {
		return field.ErrorList{field.Invalid(path, entry, "write an address with its length, as 192.0.2.1/32 or 2001:db8::1/128")}
	}
	for _, label := range strings.Split(entry, ".") {
		if len(label) > validation.DNS1123LabelMaxLength {
			return field.ErrorList{field.TooLong(path, "", validation.DNS1123LabelMaxLength)}
		}
	}
	if len(validation.IsDNS1123Subdomain(entry)) > 0 {
		return field.ErrorList{field.Invalid(path, entry, "must be a network such as 10.0.0.0/8, or a DNS name in lower case such as lb.example.com, which stands for all below it")}
	}
	if _, _, err := addresses.ParseEntry(entry); err != nil {
		return field.ErrorList{field.Invalid(path, entry, err.Error())}
	}
	return nil
}
