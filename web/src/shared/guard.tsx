// A view that fails says so, instead of taking the page with it.

import { Component, type ComponentChildren } from 'preact';

interface Props {
  what: unknown;
  children: ComponentChildren;
}

export class Guard extends Component<Props, { failure: string }> {
  override state = { failure: '' };

  override componentDidCatch(error: unknown): void {
    console.error(error);
    this.setState({ failure: error instanceof Error ? error.message : String(error) });
  }

  // Other choices are another try.
  override componentWillReceiveProps(next: Readonly<Props>): void {
    if (next.what !== this.props.what && this.state.failure) this.setState({ failure: '' });
  }

  render() {
    const { failure } = this.state;
    return failure ? (
      <p class="message warn" role="alert">
        This cannot be drawn: {failure}
      </p>
    ) : (
      this.props.children
    );
  }
}
