package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Calls are requests that this manager sent to the clouds: the latest ones, and how
// many of each kind. A standby sends what it needs to try its modules.
type Calls struct {
	metav1.TypeMeta `json:",inline"`
	// Time is that of the answer, by the manager's clock.
	Time metav1.Time `json:"time"`
	// Manager is who sent them; its Holder is left out.
	Manager Manager `json:"manager"`
	// Latest are the latest calls, the one that ended last first, at most MaxCalls.
	Latest []Call `json:"latest"`
	// Counts are the calls since the manager began, the kinds that took the most time
	// in total first, at most MaxCallCounts.
	Counts []CallCount `json:"counts"`
}

// Call is one request to a cloud. No part of it is a query, a header or a body.
type Call struct {
	Provider string `json:"provider"`
	// Number counts the calls of the provider since the manager began.
	Number int64 `json:"number"`
	// At is when it began, Took how long it took.
	At   metav1.MicroTime `json:"at"`
	Took metav1.Duration  `json:"took"`
	CallKind
	// Object is what the op is about, as KIND NAMESPACE/NAME, or "".
	Object string `json:"object,omitempty"`
	// Generation is that of the module that sent it.
	Generation int64 `json:"generation"`
	// Status is that of the response; 0 without one.
	Status int `json:"status,omitempty"`
	// SentBytes and ReceivedBytes are those of the bodies.
	SentBytes     int `json:"sentBytes"`
	ReceivedBytes int `json:"receivedBytes"`
}

// End is when the call ended.
func (c *Call) End() time.Time { return c.At.Add(c.Took.Duration) }

// CallKind is what calls are told apart by.
type CallKind struct {
	// Op is that of the ABI, such as lb_ensure; rollout for a module that does not
	// serve yet; other for kinds that are too many to be counted apart.
	Op string `json:"op"`
	// Host is HOST:PORT. In counts it is that of the grant, with its wildcard.
	Host   string `json:"host"`
	Method string `json:"method"`
	// Path has * in place of ids.
	Path string `json:"path"`
	// Result is 2xx to 5xx, or why there is no response, such as deadline.
	Result string `json:"result"`
}

// CallCount counts the calls of a kind.
type CallCount struct {
	Provider string `json:"provider"`
	CallKind
	Calls int64 `json:"calls"`
	// Total is the time of all of them, Longest that of one.
	Total   metav1.Duration `json:"total"`
	Longest metav1.Duration `json:"longest"`
	// Last is when the last one began.
	Last metav1.Time `json:"last"`
}
