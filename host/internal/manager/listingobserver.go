package manager

import (
	"time"

	"k8s.io/klog/v2"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/listing"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/metrics"
)

// listingObserver reports listings of instances, by metrics and the log.
type listingObserver struct {
	logger  klog.Logger
	metrics *metrics.Listing
}

var _ listing.Observer = (*listingObserver)(nil)

func (o *listingObserver) Listed(instances, pages int, took time.Duration) {
	o.metrics.Listed(instances)
	o.logger.V(2).Info("The instances are listed", "instances", instances, "pages", pages, "took", took)
}

func (o *listingObserver) Failed(err error, delay time.Duration) {
	o.metrics.Failed()
	o.logger.Error(err, "The instances cannot be listed; the provider gets one request for each Node", "nextListing", delay)
}

func (o *listingObserver) Served(op abi.Op, _ time.Duration) { o.metrics.Answered(op, "listing") }
func (o *listingObserver) Asked(op abi.Op)                   { o.metrics.Answered(op, "direct") }
func (o *listingObserver) PutOff()                           { o.metrics.Answered(abi.OpInstanceMetadata, "later") }
